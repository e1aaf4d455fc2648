"""The search loop: capture, cut, propose, evaluate, record, until budgets or ideas end."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from kernelwright.agents.role import Proposal
from kernelwright.campaign.bench import Bench
from kernelwright.campaign.earlier import Earlier, earlier_runs
from kernelwright.campaign.event import (
    CampaignBegan,
    CampaignEnded,
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    TaskEnded,
)
from kernelwright.campaign.interleave import Order, in_given_order
from kernelwright.campaign.judge import MakeJudge, environment_of
from kernelwright.campaign.pausing import Pause
from kernelwright.campaign.planning import Captured, FunctionPlan, plan_function
from kernelwright.campaign.pursuit import Pursuit
from kernelwright.campaign.ranking import is_confirmed, is_final, rank_of, was_put_to_the_test
from kernelwright.campaign.report import SearchReport, TaskReport
from kernelwright.campaign.spec import SearchSpec
from kernelwright.campaign.strategy import Enough, Later, RepairThenWrite, Strategy, Team
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import Intent, KernelStore, KnownEvaluation, Trial

Listener = Callable[[Event], None]
_POLL_S = 0.1
_MOST_REFUTED = 3
"""Leaders that may fail confirmation before a task is left to MLX."""
_GRACE_S = 5.0
"""How long a search that was told to stop waits for what still runs."""


@dataclass(frozen=True)
class Hired:
    """Who proposes in a campaign that has begun, and what is tried in which order."""

    team: Team
    strategy: Strategy


Hire = Callable[[str, DeviceInfo], Hired]
"""Makes a team once the campaign's id is known, for those who write into its records."""


@dataclass(frozen=True)
class _Work:
    """A candidate on its way: the store holds its intent."""

    pursuit: Pursuit
    proposal: Proposal
    trial: Trial
    confirms: bool = False


class Engine:
    """Runs one search; every step is in the store before the next begins.

    A process that dies between two steps loses at most the evaluations that were running.
    The same search started again finds the finished ones in the store and says so.
    """

    def __init__(
        self,
        store: KernelStore,
        spec: SearchSpec,
        team: Team,
        make_judge: MakeJudge,
        *,
        listen: Listener = lambda event: None,
        hire: Hire | None = None,
        order: Order = in_given_order,
        resumes: bool = False,
        pause: Pause | None = None,
    ) -> None:
        """Prepare a search; one that `resumes` counts what its dead runs took of the caps."""
        self._pause = pause or Pause()
        self._store = store
        self._spec = spec
        self._team = team
        self._make_judge = make_judge
        self._listen = listen
        self._hire = hire or self._keep_team
        self._order = order
        self._resumes = resumes
        self._earlier = Earlier()
        self._quarantined: set[str] = set()
        self._held: deque[_Work] = deque()
        self._stopping = threading.Event()
        self._stopped_at: float | None = None
        self._deadline: float | None = None
        self._evaluated = 0
        self._campaign_id = ""
        self._trials: dict[tuple[str, str], Trial] = {}

    def stop(self) -> None:
        """End in order: nothing new is begun, what ends within seconds is recorded.

        Safe in a signal handler.
        """
        self._stopped_at = time.monotonic()
        self._stopping.set()

    def run(self, captured: Captured) -> SearchReport:
        """Search every captured function; return what was found.

        Raises:
            DeviceError: the device or its workers failed.
            StoreError: the store failed; what it acknowledged is kept.
        """
        started = time.monotonic()
        with Bench(self._make_judge, self._spec.jobs) as bench:
            self._begin(bench, captured)
            if self._spec.seconds:
                used = self._earlier.seconds if self._resumes else 0.0
                self._deadline = started + self._spec.seconds - used
            for refusal in captured.refused:
                self._say(refusal, log=True)
            with self._failing_in_order():
                hired = self._hire(self._campaign_id, bench.info)
                plans = [
                    plan_function(function, hired.team.planner, bench.info)
                    for function in captured.functions
                ]
                for plan in plans:
                    self._say(plan.event, log=True)
                pursuits = _pursuits(plans)
                for pursuit in pursuits:
                    self._store.keep_task(pursuit.task, signature=pursuit.signature)
                reason = self._pursue(pursuits, hired.strategy, bench)
        self._store.end_campaign(
            self._campaign_id, "interrupted" if self._stopping.is_set() else "finished"
        )
        ended = CampaignEnded(
            campaign_id=self._campaign_id, reason=reason, interrupted=self._stopping.is_set()
        )
        self._say(ended, log=True)
        return SearchReport(
            campaign_id=self._campaign_id,
            store=self._store.label,
            device=bench.info,
            functions=tuple(plan.report for plan in plans),
            refused=captured.refused,
            tasks=tuple(TaskReport.of(pursuit) for pursuit in pursuits),
            evaluated=self._evaluated,
            duration_s=time.monotonic() - started,
            ended=ended,
        )

    def _keep_team(self, campaign_id: str, device: DeviceInfo) -> Hired:
        return Hired(self._team, RepairThenWrite(self._team, device, self._spec))

    def _begin(self, bench: Bench, captured: Captured) -> None:
        names = tuple(function.subject.name for function in captured.functions)
        campaign = self._store.begin_campaign(
            name=self._spec.name or ", ".join(names)[:200],
            spec=self._spec.model_dump_json(),
            environment=environment_of(bench.info),
        )
        self._campaign_id = campaign.id
        self._earlier = earlier_runs(self._store, campaign.id)
        self._quarantined = set(self._earlier.in_flight)
        began = CampaignBegan(
            campaign_id=campaign.id,
            device=bench.info,
            store=self._store.label,
            functions=names,
        )
        self._say(began, log=True)

    @contextmanager
    def _failing_in_order(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._store.end_campaign(self._campaign_id, "failed")
            raise

    def _pursue(self, pursuits: Sequence[Pursuit], strategy: Strategy, bench: Bench) -> str:
        ready: deque[_Work] = deque()
        running: dict[Future[Evaluation], _Work] = {}
        with ThreadPoolExecutor(bench.jobs, thread_name_prefix="evaluate") as pool:
            while True:
                reason = self._halted()
                is_held = self._pause.is_on and not self._stopping.is_set()
                if reason is not None:
                    self._wind_up(pursuits, ready, bench, reason)
                elif not is_held:
                    self._refill(pursuits, strategy, ready, bench)
                room = 1 if any(self._is_quarantined(w) for w in running.values()) else bench.jobs
                while ready and not is_held and len(running) < room:
                    work = ready.popleft()
                    running[self._begin_work(work, pool, bench)] = work
                    if self._halted() is not None:
                        break
                if not running:
                    is_pending = any(pursuit.is_pending for pursuit in pursuits)
                    if is_held or (reason is None and is_pending):
                        self._stopping.wait(_POLL_S)
                        continue
                    if not ready and not self._held:
                        return reason or "every task is done"
                    if not ready:
                        work = self._held.popleft()
                        running[self._begin_work(work, pool, bench)] = work
                if self._is_out_of_patience():
                    # Whoever still runs is cut off; nothing of theirs is recorded.
                    bench.close()
                    return "interrupted"
                done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(running.pop(future), future.result(), ready, bench)

    def _begin_work(
        self, work: _Work, pool: ThreadPoolExecutor, bench: Bench
    ) -> Future[Evaluation]:
        duration = timedelta(seconds=self._spec.lease_s)
        if work.confirms:
            self._store.begin_confirmation(work.trial.id, duration=duration)
            return pool.submit(bench.confirm, work.pursuit.task, work.proposal.program)
        self._store.lease(work.trial.id, duration=duration)
        self._evaluated += 1
        return pool.submit(bench.evaluate, work.pursuit.task, work.proposal.program)

    def _take(self, work: _Work, evaluation: Evaluation, ready: deque[_Work], bench: Bench) -> None:
        self._quarantined.discard(work.trial.candidate_id)
        if not work.confirms:
            self._record(work, evaluation)
            return
        rank = rank_of(evaluation) if is_confirmed(evaluation) else None
        self._store.confirm(work.trial.id, evaluation, rank=rank)
        self._confirmed(work, evaluation, ready, bench, reused=False)

    def _wind_up(
        self, pursuits: Sequence[Pursuit], ready: deque[_Work], bench: Bench, reason: str
    ) -> None:
        """Begin nothing new; unless interrupted, what was found is still confirmed."""
        for waiting in (ready, self._held):
            dropped = [work for work in waiting if not work.confirms or self._stopping.is_set()]
            for work in dropped:
                waiting.remove(work)
                work.pursuit.abandon([work.proposal])
        for pursuit in pursuits:
            if not pursuit.ended and not pursuit.is_waiting and not self._stopping.is_set():
                pursuit.close_batch()
                self._finish(pursuit, reason, ready, bench)

    def _finish(self, pursuit: Pursuit, reason: str, ready: deque[_Work], bench: Bench) -> None:
        """Try nothing more for a task but the confirmation of what leads it."""
        pursuit.ended = True
        pursuit.reason = reason
        proposal = pursuit.next_to_confirm()
        if proposal is None or len(pursuit.refuted) >= _MOST_REFUTED:
            self._say(TaskEnded(task_id=pursuit.task.fingerprint, reason=reason), log=True)
            return
        trial = self._trials[pursuit.task.fingerprint, proposal.program.id]
        work = _Work(pursuit, proposal, trial, confirms=True)
        known = self._known(work, bench)
        if known is None or not was_put_to_the_test(known.evaluation):
            self._queue(work, ready)
            return
        if is_confirmed(known.evaluation):
            self._store.crown(known.id)
        self._confirmed(work, known.evaluation, ready, bench, reused=True)

    def _confirmed(
        self,
        work: _Work,
        evaluation: Evaluation,
        ready: deque[_Work],
        bench: Bench,
        *,
        reused: bool,
    ) -> None:
        pursuit, program_id = work.pursuit, work.proposal.program.id
        survived = pursuit.confirmed(program_id, evaluation)
        self._say(
            CandidateConfirmed(
                task_id=pursuit.task.fingerprint,
                candidate_id=work.trial.candidate_id,
                status=evaluation.status,
                summary=evaluation.summary,
                rank=rank_of(evaluation) if survived else None,
                reused=reused,
            )
        )
        if survived:
            ended = TaskEnded(task_id=pursuit.task.fingerprint, reason=pursuit.reason)
            self._say(ended, log=True)
        elif not self._stopping.is_set():
            self._finish(pursuit, pursuit.reason, ready, bench)

    def _halted(self) -> str | None:
        """Say why nothing new may begin, None while it may."""
        if self._stopping.is_set():
            return "interrupted"
        now = time.monotonic() - self._pause.seconds
        if self._deadline is not None and now >= self._deadline:
            return f"the {self._spec.seconds:g} s that were allowed are over"
        used = self._evaluated + (self._earlier.evaluations if self._resumes else 0)
        if self._spec.evaluations is not None and used >= self._spec.evaluations:
            return f"the {self._spec.evaluations} evaluations that were allowed are done"
        return None

    def _is_out_of_patience(self) -> bool:
        return self._stopped_at is not None and time.monotonic() > self._stopped_at + _GRACE_S

    def _refill(
        self,
        pursuits: Sequence[Pursuit],
        strategy: Strategy,
        ready: deque[_Work],
        bench: Bench,
    ) -> None:
        """Ask for batches until every worker has something to do or every task waits."""
        for pursuit in self._order(pursuits):
            while not pursuit.ended and not pursuit.is_waiting and len(ready) < bench.jobs:
                pursuit.close_batch()
                batch = strategy.next(pursuit)
                pursuit.is_pending = isinstance(batch, Later)
                if isinstance(batch, Later):
                    break
                if isinstance(batch, Enough):
                    self._finish(pursuit, batch.reason, ready, bench)
                    break
                pursuit.begin(batch)
                works = [self._intend(pursuit, proposal) for proposal in batch]
                for work in works:
                    if not self._reuse(work, bench):
                        self._queue(work, ready)

    def _queue(self, work: _Work, ready: deque[_Work]) -> None:
        """Let work wait its turn; a candidate that was in flight at a death is tried last, alone.

        Its task waits with it: what is proposed next is what an undisturbed run proposes.
        """
        (self._held if self._is_quarantined(work) else ready).append(work)

    def _is_quarantined(self, work: _Work) -> bool:
        return work.trial.candidate_id in self._quarantined

    def _intend(self, pursuit: Pursuit, proposal: Proposal) -> _Work:
        intent = Intent(
            campaign_id=self._campaign_id,
            task=pursuit.task,
            program=proposal.program,
            author=proposal.author,
            idea=proposal.idea,
            schedule=proposal.schedule,
            parent_program_id=proposal.parent,
        )
        trial = self._store.intend(intent, signature=pursuit.signature)
        self._trials[pursuit.task.fingerprint, proposal.program.id] = trial
        self._say(
            CandidateProposed(
                task_id=pursuit.task.fingerprint,
                candidate_id=trial.candidate_id,
                author=proposal.author,
                idea=proposal.idea,
                repairs=proposal.parent in pursuit.repaired,
            )
        )
        return _Work(pursuit, proposal, trial)

    def _known(self, work: _Work, bench: Bench) -> KnownEvaluation | None:
        return self._store.known(
            work.pursuit.task.fingerprint,
            work.proposal.program.id,
            environment_of(bench.info),
            evaluator_version=Evaluation.model_fields["evaluator_version"].default,
        )

    def _reuse(self, work: _Work, bench: Bench) -> bool:
        known = self._known(work, bench)
        if known is None or not is_final(known.evaluation):
            return False
        self._store.reuse(work.trial.id, known.id)
        self._announce(work, known.evaluation, reused=True)
        return True

    def _record(self, work: _Work, evaluation: Evaluation) -> None:
        self._store.record(work.trial.id, evaluation, rank=rank_of(evaluation))
        self._announce(work, evaluation, reused=False)

    def _announce(self, work: _Work, evaluation: Evaluation, *, reused: bool) -> None:
        leads = work.pursuit.judged(work.proposal.program.id, evaluation, reused=reused)
        self._say(
            CandidateJudged(
                task_id=work.pursuit.task.fingerprint,
                candidate_id=work.trial.candidate_id,
                status=evaluation.status,
                summary=evaluation.summary,
                rank=rank_of(evaluation),
                reused=reused,
                leads=leads,
            )
        )

    def _say(self, event: Event, *, log: bool = False) -> None:
        if log:
            self._store.log(self._campaign_id, type(event).__name__, event.model_dump_json())
        self._listen(event)


def _pursuits(plans: Iterable[FunctionPlan]) -> list[Pursuit]:
    """Return one pursuit for each distinct task, in the order in which it first occurs."""
    pursuits: dict[str, Pursuit] = {}
    for plan in plans:
        for planned in plan.tasks:
            pursuits.setdefault(planned.task.fingerprint, Pursuit(planned.task, planned.signature))
    return list(pursuits.values())
