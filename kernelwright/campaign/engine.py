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
from kernelwright.campaign.event import (
    CampaignBegan,
    CampaignEnded,
    CandidateJudged,
    CandidateProposed,
    Event,
    TaskEnded,
)
from kernelwright.campaign.judge import MakeJudge, environment_of
from kernelwright.campaign.planning import Captured, FunctionPlan, plan_function
from kernelwright.campaign.pursuit import Pursuit
from kernelwright.campaign.ranking import is_final, rank_of
from kernelwright.campaign.report import SearchReport, TaskReport
from kernelwright.campaign.spec import SearchSpec
from kernelwright.campaign.strategy import Enough, Later, RepairThenWrite, Strategy, Team
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import Intent, KernelStore, Trial

Listener = Callable[[Event], None]
_POLL_S = 0.1
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
    ) -> None:
        self._store = store
        self._spec = spec
        self._team = team
        self._make_judge = make_judge
        self._listen = listen
        self._hire = hire or self._keep_team
        self._stopping = threading.Event()
        self._stopped_at: float | None = None
        self._deadline: float | None = None
        self._evaluated = 0
        self._campaign_id = ""

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
        self._deadline = started + self._spec.seconds if self._spec.seconds else None
        with Bench(self._make_judge, self._spec.jobs) as bench:
            self._begin(bench, captured)
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
            name=", ".join(names)[:200],
            spec=self._spec.model_dump_json(),
            environment=environment_of(bench.info),
        )
        self._campaign_id = campaign.id
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
                if reason is None:
                    self._refill(pursuits, strategy, ready, bench)
                    while ready and len(running) < bench.jobs and self._halted() is None:
                        work = ready.popleft()
                        self._store.lease(
                            work.trial.id, duration=timedelta(seconds=self._spec.lease_s)
                        )
                        future = pool.submit(
                            bench.evaluate, work.pursuit.task, work.proposal.program
                        )
                        running[future] = work
                        self._evaluated += 1
                if not running:
                    if reason is None and any(pursuit.is_pending for pursuit in pursuits):
                        self._stopping.wait(_POLL_S)
                        continue
                    return reason or "every task is done"
                if self._is_out_of_patience():
                    # Whoever still runs is cut off; nothing of theirs is recorded.
                    bench.close()
                    return "interrupted"
                done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._record(running.pop(future), future.result())

    def _halted(self) -> str | None:
        """Say why nothing new may begin, None while it may."""
        if self._stopping.is_set():
            return "interrupted"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return f"the {self._spec.seconds:g} s that were allowed are over"
        if self._spec.evaluations is not None and self._evaluated >= self._spec.evaluations:
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
        for pursuit in pursuits:
            while not pursuit.ended and not pursuit.is_waiting and len(ready) < bench.jobs:
                pursuit.close_batch()
                batch = strategy.next(pursuit)
                pursuit.is_pending = isinstance(batch, Later)
                if isinstance(batch, Later):
                    break
                if isinstance(batch, Enough):
                    pursuit.ended = True
                    pursuit.reason = batch.reason
                    self._say(TaskEnded(task_id=pursuit.task.fingerprint, reason=batch.reason))
                    break
                pursuit.begin(batch)
                works = [self._intend(pursuit, proposal) for proposal in batch]
                ready.extend(w for w in works if not self._reuse(w, bench))

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

    def _reuse(self, work: _Work, bench: Bench) -> bool:
        known = self._store.known(
            work.pursuit.task.fingerprint,
            work.proposal.program.id,
            environment_of(bench.info),
            evaluator_version=Evaluation.model_fields["evaluator_version"].default,
        )
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
