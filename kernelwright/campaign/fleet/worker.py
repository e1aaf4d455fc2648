"""A worker of a fleet: takes jobs for its chip from the queue, and answers with verdicts."""

import asyncio
import os
import platform
import queue
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kernelwright.campaign.execution.evaluator_pool import judges_at_once
from kernelwright.campaign.execution.judge import environment_of
from kernelwright.campaign.execution.retry_policy import RetryPolicy
from kernelwright.campaign.fleet.absent_server import (
    FIRST_PAUSE_S,
    LONGEST_AWAY_S,
    LONGEST_PAUSE_S,
    gave_up,
    once_answered,
    waits,
)
from kernelwright.campaign.fleet.job import (
    FleetJob,
    FleetVerdict,
    job_version,
    queue_of,
)
from kernelwright.campaign.fleet.job_queue import (
    DEAD_AFTER_S,
    HEARTBEAT_S,
    TASK,
    prepare_queue,
    queue_app,
    queue_errors,
)
from kernelwright.campaign.fleet.stop_signal import stopping_at_signals
from kernelwright.campaign.judging.job_judge import JobJudge, MakeJobJudge
from kernelwright.digest import digest
from kernelwright.errors import (
    BlockedError,
    DeviceError,
    KernelwrightError,
    OutdatedError,
    StoreError,
)
from kernelwright.store import KernelStore
from kernelwright.store.fleet import FleetWorker
from kernelwright.store.retry import growing_pause_s
from kernelwright.validation import sentence_of

if TYPE_CHECKING:
    from procrastinate import App

Say = Callable[[str], None]
_RETRY_POLICY = RetryPolicy(failures=3)
_SETTLED_S = 10.0
"""A connection that held so long was a good one."""
_LONGEST_WAIT_S = 50.0
"""How long a verdict waits for the server: less than what a worker without sign of life has."""


class Worker:
    """Evaluates jobs until it is told to stop, or until its device fails again and again."""

    def __init__(
        self,
        store: KernelStore,
        make_judge: MakeJobJudge,
        *,
        jobs: int = 1,
        heartbeat_s: float = HEARTBEAT_S,
        dead_after_s: float = DEAD_AFTER_S,
        retry_policy: RetryPolicy = _RETRY_POLICY,
        say: Say = lambda sentence: None,
    ) -> None:
        """Open the device and make the queue where it is missing.

        A GPU that shares memory with the cores takes one job at a time, whatever `jobs` says.

        Raises:
            DeviceError: the device does not open.
            InputError: the store is no PostgreSQL.
            StoreError: the store's server stayed away.
        """
        once_answered(lambda: prepare_queue(store.url), say)
        self._store = store
        self._make_judge = make_judge
        self._heartbeat_s = heartbeat_s
        self._dead_after_s = dead_after_s
        self._retry_policy = retry_policy
        self._say = say
        self._idle: queue.SimpleQueue[JobJudge] = queue.SimpleQueue()
        judges = [make_judge()]
        jobs = judges_at_once(judges[0].info, jobs)
        judges += [make_judge() for _ in range(jobs - 1)]
        for judge in judges:
            self._idle.put(judge)
        self._judges = judges
        environment = environment_of(judges[0].info)
        version = job_version()
        self.listed = FleetWorker(
            id=digest(uuid.uuid4().hex),
            queue=queue_of(environment.device, version),
            version=version,
            environment=environment,
            host=platform.node() or "unknown",
            process=os.getpid(),
            jobs=jobs,
        )
        self._serving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._is_cancelled = False
        self._failed = ""

    def run(self, *, handles_signals: bool = True) -> None:
        """Work until SIGINT or SIGTERM; what is being evaluated then is finished first.

        Raises:
            DeviceError: the device failed again and again.
            StoreError: the store's server stayed away.
        """
        once_answered(lambda: self._store.fleet.announce(self.listed), self._say)
        self._say(f"{self.listed.label} serves {self.listed.queue}, {self.listed.jobs} at once")
        try:
            with self._store.fleet.waiting_when_blocked(self._wait_for_server):
                asyncio.run(self._serve(handles_signals=handles_signals))
        finally:
            with suppress(StoreError):
                self._store.fleet.leave(self.listed.id)
            for judge in self._judges:
                judge.close()
        if self._failed:
            raise DeviceError(self._failed)

    def stop(self) -> None:
        """Take no further job, from any thread and as often as anybody likes."""
        self._is_stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # The loop is closed: it has stopped.
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        """Cancel once: a second time would break off how connections are closed."""
        if self._serving is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._serving.cancel()

    async def _serve(self, *, handles_signals: bool) -> None:
        """Take jobs until told to stop; where the store's server is away, wait until it is back."""
        self._loop = asyncio.get_running_loop()
        # What the queue's own tasks die of is told in our words, without tracebacks.
        self._loop.set_exception_handler(lambda loop, context: None)
        failure = f"the queue in the store {self._store.label} does not answer"
        away_since: float | None = None
        with stopping_at_signals(self.stop) if handles_signals else nullcontext():
            while not self._is_stopping:
                held_s = await self._take_jobs()
                if self._is_stopping:
                    return
                if away_since is None or held_s > _SETTLED_S:
                    away_since = time.monotonic()
                    self._say(waits(failure))
                elif time.monotonic() > away_since + LONGEST_AWAY_S:
                    raise StoreError(gave_up(failure))
                await asyncio.sleep(FIRST_PAUSE_S)

    async def _take_jobs(self) -> float:
        """Take jobs on one connection; return for how many seconds it held."""
        app = queue_app(self._store.url)
        app.task(name=TASK)(self._evaluate)
        opened: float | None = None
        # The errors' own words repeat a job, or an address.
        with suppress(*queue_errors()):
            async with app.open_async():
                opened = time.monotonic()
                await self._work_on(app)
        return 0.0 if opened is None else time.monotonic() - opened

    async def _work_on(self, app: "App") -> None:
        self._serving = asyncio.create_task(
            app.run_worker_async(
                queues=[self.listed.queue],
                concurrency=self.listed.jobs,
                delete_jobs="always",
                update_heartbeat_interval=self._heartbeat_s,
                stalled_worker_timeout=self._dead_after_s,
                install_signal_handlers=False,
            )
        )
        if self._is_stopping:
            self._cancel()
        beating = asyncio.create_task(self._beat())
        try:
            with suppress(asyncio.CancelledError):
                await self._serving
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            with suppress(StoreError):
                await asyncio.to_thread(self._store.fleet.beat, self.listed.id)

    def _evaluate(self, job: Mapping[str, object]) -> None:
        """Judge one job; whatever happens, there is an answer, or its campaign queues it again."""
        job_id = str(job.get("id"))
        started = time.monotonic()
        try:
            self._store.fleet.began(job_id, self.listed.label)
            verdict = self._verdict(job)
            self._store.fleet.finish(job_id, verdict.model_dump_json())
        except StoreError as e:
            self._say(f"{job_id[:8]} is given back: {e}")
            return
        found = verdict.evaluation.status if verdict.evaluation else verdict.failure
        self._say(f"{job_id[:8]} {found or verdict.error}, {time.monotonic() - started:.1f} s")
        if verdict.failure and self._failed:
            self.stop()

    def _wait_for_server(self, error: BlockedError) -> None:
        """Wait for the store's server, which may be away for a while."""
        if self._is_stopping or error.lasted_s > _LONGEST_WAIT_S:
            raise error
        time.sleep(growing_pause_s(error.tries, FIRST_PAUSE_S, LONGEST_PAUSE_S))

    def _verdict(self, sent: Mapping[str, object]) -> FleetVerdict:
        blank = FleetVerdict(environment=self.listed.environment, worker=self.listed.label)
        if sent.get("version") != self.listed.version:
            return blank.model_copy(
                update={"failure": f"it judges jobs of {self.listed.version}, not of "
                        f"{sent.get('version')}; install the same version everywhere"}
            )  # fmt: skip
        try:
            job = FleetJob.model_validate(sent)
        except ValidationError as e:
            failure = f"the job cannot be read: {sentence_of(e)}"
            return blank.model_copy(update={"failure": failure})
        judge = self._idle.get()
        try:
            return self._judged(judge, job, blank)
        except KernelwrightError as e:
            return blank.model_copy(update={"failure": str(e)})
        except Exception as e:
            return blank.model_copy(update={"error": f"{type(e).__name__}: {e}"})
        finally:
            self._idle.put(judge)

    def _judged(self, judge: JobJudge, job: FleetJob, blank: FleetVerdict) -> FleetVerdict:
        for failures in range(1, self._retry_policy.failures + 1):
            if job.alone or failures > 1:
                judge.start_again()
            try:
                evaluation, cases = judge.judge(job)
            except DeviceError as e:
                if isinstance(e, OutdatedError):
                    self._failed = f"{self.listed.label} is parked: {e}"
                    return blank.model_copy(update={"failure": self._failed})
                if failures < self._retry_policy.failures:
                    time.sleep(self._retry_policy.pause_s(failures - 1))
                    continue
                self._failed = f"{self.listed.label} is parked, its device failed {failures} times in a row; the last time: {e}"  # noqa: E501
                return blank.model_copy(update={"failure": self._failed})
            return blank.model_copy(update={"evaluation": evaluation, "cases": tuple(cases)})
        raise AssertionError("a retry policy allows one try at least")
