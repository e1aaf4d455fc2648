"""The executor of a campaign that many machines work for."""

import asyncio
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kernelwright.campaign.execution.executor import Job, JobVerdict
from kernelwright.campaign.execution.retry_policy import DeviceParkedError
from kernelwright.campaign.fleet.chip_queue import ChipQueue
from kernelwright.campaign.fleet.job import FleetJob, FleetVerdict, job_id, job_version
from kernelwright.campaign.fleet.job_queue import DEAD_AFTER_S, queue_app, queue_errors
from kernelwright.campaign.history.evaluation_history import StoredMemory
from kernelwright.campaign.judging.job import TaskText
from kernelwright.errors import DeviceError, StoreError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.store import KernelStore
from kernelwright.store.fleet import FleetWorker

if TYPE_CHECKING:
    from procrastinate import App

_POLL_S = 0.1
_WAIT_S = 2.0
_MOST_FAILURES = 3
"""Devices that may fail at a job before the fleet is parked."""


@dataclass
class _Pending:
    """A job that was submitted, and everybody who waits for it."""

    job: FleetJob
    futures: list[Future[JobVerdict]] = field(default_factory=list)
    queued_id: int | None = None
    failures: int = 0


class FleetExecutor:
    """Hands jobs to the queue of one chip and collects verdicts, on a thread of its own.

    A job whose worker died is answered as a crash: the campaign quarantines its candidate, and
    the queue does not try it again. A job that an earlier run of the campaign left behind is
    taken up, whether it waits, runs or is done: nothing is evaluated twice for a kill.
    """

    def __init__(
        self,
        store: KernelStore,
        config: EvaluatorConfig,
        first: FleetWorker,
        *,
        width: int,
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        self._store = store
        self._memory = StoredMemory(store)
        self._config = config
        self._queue = first.queue
        self._dead_after_s = dead_after_s
        self.environment = first.environment
        self.width = width
        self.jobs = max(width, 1)
        self.evaluations = 0
        self.tool_evaluations = 0
        self._tried: dict[str, JobVerdict] = {}
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}
        self._new: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._thread.start()

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self.environment.device

    def submit(self, job: Job) -> Future[JobVerdict]:
        """Hand a job to the fleet."""
        id_ = job_id(self._queue, job.task, job.program, confirms=job.confirms)
        tried = None if job.alone or job.confirms else self._tried.pop(id_, None)
        future = Future[JobVerdict]()
        if tried is not None:
            # From here on it counts as the candidate's.
            self.tool_evaluations -= 1
            future.set_result(tried)
            return future
        self.evaluations += not job.confirms
        self._hand(id_, job, future)
        return future

    def try_out(self, task: Task, program: Program) -> Evaluation:
        """Have evaluated what may become a candidate; when it does, its verdict is there."""
        self.evaluations += 1
        self.tool_evaluations += 1
        id_ = job_id(self._queue, task, program, confirms=False)
        future = Future[JobVerdict]()
        self._hand(id_, Job(task, program), future)
        verdict = future.result()
        if not self.info.measures_time:
            self._tried[id_] = verdict
        return verdict.evaluation

    def close(self) -> None:
        """Hand over nothing more; what a worker has begun, it finishes for a later run."""
        self._is_over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._thread.join()

    def _hand(self, id_: str, job: Job, future: Future[JobVerdict]) -> None:
        through = Stage.CONFIRMATION if job.confirms else self._config.through
        sent = FleetJob(
            id=id_,
            version=job_version(),
            task=TaskText.of(job.task),
            program=job.program,
            config=self._config.model_copy(update={"through": through}),
            tried=self._memory.tried(job.task, job.program),
            cases=tuple(self._memory.regressions(job.task)),
            alone=job.alone,
        )
        with self._lock:
            if self._broken is not None:
                future.set_exception(self._broken)
                return
            if self._is_over.is_set():
                future.set_exception(DeviceError("interrupted before its job was handed over."))
                return
            is_new = id_ not in self._pending
            self._pending.setdefault(id_, _Pending(sent)).futures.append(future)
        if is_new:
            self._new.put(id_)

    def _run(self) -> None:
        """Serve until it is over; what then has no verdict is cut off."""
        error: Exception = DeviceError("interrupted while a worker was at it.")
        try:
            asyncio.run(self._serve())
        except Exception as e:
            error = e
        with self._lock:
            self._broken = error
            left, self._pending = list(self._pending.values()), {}
        for pending in left:
            for future in pending.futures:
                future.set_exception(error)

    async def _serve(self) -> None:
        app = queue_app(self._store.url)
        if not await self._opens(app):
            return
        looked_at = 0.0
        async with app.open_async():
            jobs = ChipQueue(app, self._queue, self._store.fleet)
            while not self._is_over.is_set():
                await self._enqueue_new(jobs)
                self._collect()
                if time.monotonic() >= looked_at + min(self._dead_after_s / 4, _WAIT_S):
                    await self._look_after(jobs)
                    looked_at = time.monotonic()
                await asyncio.sleep(_POLL_S)
            left = tuple(self._pending.items())
            await jobs.withdraw([(i, p.queued_id) for i, p in left if p.queued_id is not None])

    async def _opens(self, app: "App") -> bool:
        """Open the queue once its server is there; False where it was over first."""
        while not self._is_over.is_set():
            try:
                await app.open_async()
            except queue_errors():
                # A pool that did not open is kept, closed.
                await app.close_async()
                await asyncio.sleep(_WAIT_S)
            else:
                return True
        return False

    async def _enqueue_new(self, jobs: ChipQueue) -> None:
        from procrastinate.exceptions import ConnectorException

        while True:
            try:
                id_ = self._new.get_nowait()
            except queue.Empty:
                return
            try:
                pending = self._pending[id_]
                pending.queued_id = await jobs.enqueue(pending.job)
            except ConnectorException:
                # The server is away; once it is back, the job goes there.
                self._new.put(id_)
                await asyncio.sleep(_WAIT_S)
                return

    def _collect(self) -> None:
        for id_, body in self._store.fleet.collect(tuple(self._pending)).items():
            self._answer(id_, FleetVerdict.model_validate_json(body))

    def _answer(self, id_: str, verdict: FleetVerdict) -> None:
        pending = self._pending[id_]
        if verdict.failure:
            pending.failures += 1
            if pending.failures < _MOST_FAILURES:
                self._new.put(id_)
                return
        for case in verdict.cases:
            self._memory.keep(case)
        with self._lock:
            del self._pending[id_]
        for future in pending.futures:
            if verdict.failure:
                future.set_exception(DeviceParkedError(f"{verdict.worker}: {verdict.failure}"))
            elif verdict.evaluation is None:
                future.set_exception(RuntimeError(f"{verdict.error} (on {verdict.worker})"))
            else:
                future.set_result(JobVerdict(verdict.evaluation, verdict.environment))

    async def _look_after(self, jobs: ChipQueue) -> None:
        """Count the workers, answer for the dead ones, and queue again what was lost."""
        from procrastinate.exceptions import ConnectorException

        try:
            workers = [w for w in self._store.fleet.workers() if w.queue == self._queue]
            # One more for each, so that a worker need not wait for the way back and forth.
            self.jobs = max(sum(w.jobs + 1 for w in workers), 1)
            await self._bury_the_dead(jobs)
            numbers = await jobs.numbers()
        except (ConnectorException, StoreError):
            return
        self._collect()
        for id_, pending in tuple(self._pending.items()):
            if pending.queued_id is not None and pending.queued_id not in numbers:
                pending.queued_id = None
                self._new.put(id_)

    async def _bury_the_dead(self, jobs: ChipQueue) -> None:
        async for number, id_ in jobs.stalled(self._dead_after_s):
            if id_ in self._pending:
                # It may have answered before it died.
                self._collect()
            if id_ not in self._pending:
                continue
            await jobs.bury(number)
            worker = self._store.fleet.forget(id_) or "a worker"
            self._answer(id_, self._crashed(self._pending[id_].job, worker))

    def _crashed(self, job: FleetJob, worker: str) -> FleetVerdict:
        evaluation = Evaluation(
            task=job.task.task().fingerprint,
            program=job.program.id,
            device=self.info,
            status=Status.CRASHED,
            summary=f"{worker} died while it was evaluated there",
        )
        return FleetVerdict(environment=self.environment, worker=worker, evaluation=evaluation)
