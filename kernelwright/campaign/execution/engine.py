"""The search loop: capture, cut, propose, evaluate, record, until budgets or ideas end."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from kernelwright.agents.protocols import Proposal
from kernelwright.campaign.event import (
    CampaignBegan,
    CampaignEnded,
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    TaskEnded,
)
from kernelwright.campaign.execution.candidate_queue import Queue, Work
from kernelwright.campaign.execution.crash_quarantine import Suspects, failed_evaluation, given_up
from kernelwright.campaign.execution.evaluator_pool import Bench
from kernelwright.campaign.execution.function_cutting import plan_functions
from kernelwright.campaign.execution.judge import MakeJudge, environment_of
from kernelwright.campaign.execution.retry_policy import (
    USUAL_ENDURANCE,
    DeviceParkedError,
    Endurance,
)
from kernelwright.campaign.execution.run_control import Vigil
from kernelwright.campaign.history.heartbeat import Heartbeat
from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.history.prior_runs import Earlier, earlier_runs, lasted_s
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.campaign.history.warm_start import recall
from kernelwright.campaign.planning.capturing import Captured, FunctionPlan
from kernelwright.campaign.report.champion_list import leaders
from kernelwright.campaign.report.search_report import SearchReport, TaskReport, with_whole_gains
from kernelwright.campaign.spec.spec_reading import is_same_search
from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation
from kernelwright.search.priority import Order, SecondsToSave
from kernelwright.search.ranking import is_confirmed, is_final, rank_of, was_put_to_the_test
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import Enough, Later, RepairThenWrite, Strategy, Team
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Campaign, CampaignState, Intent, KernelStore, KnownEvaluation, Trial

Listener = Callable[[Event], None]
_POLL_S = 0.1
_MOST_REFUTED = 3
"""Leaders that may fail confirmation before a task is left to MLX."""
_CAPPED = "what the models were allowed is spent; without them every task is done"
_LOST = "another process has taken the run up"


@dataclass(frozen=True)
class Hired:
    """Who proposes in a campaign that has begun, and what is tried in which order."""

    team: Team
    strategy: Strategy


Hire = Callable[[str, Bench], Hired]
"""Makes a team once the campaign's id is known and its device open: models write into its records
and have their programs tried on its bench."""


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
        order: Order | None = None,
        resumes: bool = False,
        pause: Pause | None = None,
        endurance: Endurance = USUAL_ENDURANCE,
        root_id: str | None = None,
        chip: str | None = None,
    ) -> None:
        """Prepare a search; one that `resumes` counts what its earlier runs took of the caps.

        `root_id` names the campaign that goes on; else it is that of a run of the same search
        that did not finish, whatever its caps were. `chip` chooses whose times its report
        predicts.
        """
        self._chip = chip
        self._store = store
        self._spec = spec
        self._team = team
        self._make_judge = make_judge
        self._listen = listen
        self._hire = hire or self._keep_team
        self._order = order or SecondsToSave()
        self._resumes = resumes
        self._endurance = endurance
        self._root_id = root_id
        self._is_capped = False
        self._vigil = Vigil(pause or Pause(), listen)
        self._earlier = Earlier()
        self._suspects = Suspects({}, spec.most_deaths)
        self._queue = Queue(self._is_suspect)
        self._evaluated = 0
        self._tool_evaluations: Callable[[], int] = lambda: 0
        self._campaign_id = ""
        self._trials: dict[tuple[str, str], Trial] = {}

    def stop(self) -> None:
        """End in order: nothing new is begun, what ends within seconds is recorded.

        Safe in a signal handler.
        """
        self._vigil.stop()

    def run(self, captured: Captured) -> SearchReport:
        """Search every captured function; return what was found.

        A device that fails is left alone for a while, then parked; writes wait while the
        store's disk is full.

        Raises:
            DeviceError: the device does not open.
            InputError: another process runs the same search.
            StoreError: the store failed; what it acknowledged is kept.
        """
        with (
            Bench(self._make_judge, self._spec.jobs, self._vigil.rest, self._endurance) as bench,
            self._store.holding_on(self._vigil.hold_on()),
        ):
            # The clock runs before the first write, for which a full disk may have no room.
            self._vigil.begin(self._spec.seconds, 0.0)
            self._tool_evaluations = lambda: bench.tool_evaluations
            self._begin(bench, captured)
            with self._heartbeat().beating(), self._failing_in_order():
                hired = self._hire(self._campaign_id, bench)
                plans: list[FunctionPlan] = []
                for plan in plan_functions(captured, hired.team.planner, bench.info, self._vigil):
                    plans.append(plan)
                    self._say(plan.event, log=True)
                pursuits = _pursuits(plans, bench.jobs)
                for pursuit in pursuits:
                    self._store.keep_task(
                        pursuit.task,
                        signature=pursuit.signature,
                        campaign_id=self._campaign_id,
                        function=pursuit.task.name.partition("/")[0],
                    )
                recall(self._store, self._campaign_id, pursuits, bench.info)
                reason = self._pursue(pursuits, hired.strategy, bench)
            ended = self._end(reason)
        # A run that was cut short did not confirm what an earlier one had won.
        unwon = [p.task.fingerprint for p in pursuits if p.champion is None]
        known = leaders(self._store, unwon, bench.info)
        tasks = tuple(
            TaskReport.of(p, self._chip, known=known.get(p.task.fingerprint)) for p in pursuits
        )
        return SearchReport(
            campaign_id=shown_id(self._store.campaign(self._campaign_id)),
            store=self._store.label,
            device=bench.info,
            functions=with_whole_gains(
                [plan.report for plan in plans], tasks, bench.info, self._chip
            ),
            refused=captured.refused,
            tasks=tasks,
            evaluated=self._evaluated,
            duration_s=lasted_s(self._store, self._store.campaign(self._campaign_id)),
            ended=ended,
        )

    def _keep_team(self, campaign_id: str, bench: Bench) -> Hired:
        return Hired(self._team, RepairThenWrite(self._team, bench.info, self._spec))

    def _begin(self, bench: Bench, captured: Captured) -> None:
        names = tuple(function.subject.name for function in captured.functions)
        campaign = self._store.begin_campaign(
            name=self._spec.name or ", ".join(names)[:200],
            spec=self._spec.model_dump_json(),
            environment=environment_of(bench.info),
            continues=self._continues,
            root_id=self._root_id,
        )
        self._campaign_id = campaign.id
        self._earlier = earlier_runs(self._store, campaign.id)
        self._suspects = Suspects(self._earlier.in_flight, self._spec.most_deaths)
        self._vigil.begin(self._spec.seconds, self._earlier.seconds if self._resumes else 0.0)
        began = CampaignBegan(
            campaign_id=campaign.id,
            device=bench.info,
            store=self._store.label,
            functions=names,
        )
        self._say(began, log=True)
        for refusal in captured.refused:
            self._say(refusal, log=True)

    def _continues(self, run: Campaign) -> bool:
        """Say whether a run is one of this search; one that its caps ended needs other caps."""
        is_over = run.state == "capped" and run.spec == self._spec.model_dump_json()
        return not is_over and is_same_search(self._spec, run)

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            self._store,
            self._campaign_id,
            lease=timedelta(seconds=self._spec.lease_s),
            elapsed_s=self._vigil.elapsed_s,
            when_lost=lambda: self._vigil.stop(_LOST),
        )

    def _end(self, reason: str) -> CampaignEnded:
        is_cut_short = self._vigil.is_cut_short
        state: CampaignState = "interrupted" if is_cut_short else "finished"
        if self._is_capped and not is_cut_short:
            state = "capped"
        self._store.end_campaign(self._campaign_id, state, elapsed_s=self._vigil.elapsed_s())
        ended = CampaignEnded(
            campaign_id=self._campaign_id,
            reason=reason,
            interrupted=is_cut_short,
            parked=bool(self._vigil.parked),
            capped=state == "capped",
        )
        self._say(ended, log=True)
        return ended

    @contextmanager
    def _failing_in_order(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Nobody waits for room in the store any more.
            self._vigil.stop()
            self._store.end_campaign(self._campaign_id, "failed", elapsed_s=self._vigil.elapsed_s())
            raise

    def _pursue(self, pursuits: Sequence[TaskSearch], strategy: Strategy, bench: Bench) -> str:
        running: dict[Future[Evaluation], Work] = {}
        with (
            ThreadPoolExecutor(bench.jobs, thread_name_prefix="evaluate") as pool,
            bench.closed_at_an_error(),
        ):
            while True:
                reason = self._halted()
                if reason is not None:
                    self._wind_up(pursuits, bench, reason)
                elif not self._vigil.is_held:
                    self._look_elsewhere(bench)
                    self._refill(pursuits, strategy, bench)
                self._begin_what_may(running, pool, bench)
                if not running:
                    is_pending = any(pursuit.is_pending for pursuit in pursuits)
                    if self._vigil.is_held or (reason is None and is_pending):
                        self._vigil.wait(_POLL_S)
                        continue
                    if self._queue.is_empty:
                        if reason is None and any(pursuit.is_idle for pursuit in pursuits):
                            # Another campaign had judged all that was about to begin.
                            continue
                        if self._vigil.parked:
                            self._think_ahead(pursuits, strategy)
                        return reason or (_CAPPED if self._is_capped else "every task is done")
                    if not len(self._queue):
                        self._begin_suspect(running, pool, bench)
                if self._vigil.is_out_of_patience:
                    # Whoever still runs is cut off; nothing of theirs is recorded.
                    bench.close()
                    return reason or "interrupted"
                done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._collect(running.pop(future), future, bench)
                if not running:
                    self._vigil.wait(0 if done else _POLL_S)

    def _begin_what_may(
        self, running: dict[Future[Evaluation], Work], pool: ThreadPoolExecutor, bench: Bench
    ) -> None:
        while not self._vigil.is_held:
            work = self._queue.next(running.values(), bench.jobs)
            if work is None:
                return
            self._begin_work(work, running, pool, bench)
            if self._halted() is not None:
                return

    def _begin_suspect(
        self, running: dict[Future[Evaluation], Work], pool: ThreadPoolExecutor, bench: Bench
    ) -> None:
        work = self._queue.next_alone()
        if work is None:
            return
        deaths = self._suspects.deaths(work.candidate_id)
        if not deaths:
            self._begin_work(work, running, pool, bench)
            return
        task, program = work.pursuit.task, work.proposal.program
        self._take(work, given_up(task, program, bench.info, deaths), bench)

    def _begin_work(
        self,
        work: Work,
        running: dict[Future[Evaluation], Work],
        pool: ThreadPoolExecutor,
        bench: Bench,
    ) -> None:
        duration = timedelta(seconds=self._spec.lease_s)
        begin = self._store.begin_confirmation if work.confirms else self._store.lease
        if not begin(work.trial.id, duration=duration):
            self._queue.leave(work)
            return
        # Another campaign may have recorded its verdict since this one was looked for.
        if not work.confirms and self._reuse(work, bench):
            return
        # A candidate counts once, however many workers die under it.
        self._evaluated += not work.confirms and not self._suspects.has_lost(work.candidate_id)
        judge = bench.confirm if work.confirms else bench.evaluate
        alone = self._is_suspect(work.candidate_id)
        future = pool.submit(judge, work.pursuit.task, work.proposal.program, alone=alone)
        running[future] = work

    def _collect(self, work: Work, future: Future[Evaluation], bench: Bench) -> None:
        """Take a verdict, or what came instead of one."""
        try:
            evaluation = future.result()
        except DeviceParkedError as e:
            self._vigil.park(str(e))
        except DeviceError:
            if not self._vigil.is_cut_short and self._halted() is None:
                raise
        except KernelwrightError:
            raise
        except Exception as e:
            self._take(work, failed_evaluation(work.pursuit.task, work.proposal.program,
                                               bench.info, e), bench)  # fmt: skip
            return
        else:
            if self._suspects.is_to_be_tried_again(work.candidate_id, evaluation):
                self._queue.add(work)
            else:
                self._take(work, evaluation, bench)
            return
        work.pursuit.abandon([work.proposal])

    def _take(self, work: Work, evaluation: Evaluation, bench: Bench) -> None:
        if not work.confirms:
            self._record(work, evaluation)
            return
        rank = rank_of(evaluation) if is_confirmed(evaluation) else None
        self._store.confirm(work.trial.id, evaluation, rank=rank)
        self._confirmed(work, evaluation, bench, reused=False)

    def _look_elsewhere(self, bench: Bench) -> None:
        """Ask for the verdicts of other campaigns, or whether their candidates are free."""
        for work in self._queue.due_elsewhere():
            if work.confirms:
                self._confirm(work, bench)
            elif not self._reuse(work, bench):
                self._queue.add(work)

    def _wind_up(self, pursuits: Sequence[TaskSearch], bench: Bench, reason: str) -> None:
        """Begin nothing new; unless cut short, what was found is still confirmed."""
        is_cut_short = self._vigil.is_cut_short
        for work in self._queue.drop(lambda work: is_cut_short or not work.confirms):
            work.pursuit.abandon([work.proposal])
        for pursuit in pursuits:
            if pursuit.is_idle and not is_cut_short:
                pursuit.advance(to_the_end=True)
                self._finish(pursuit, reason, bench)

    def _think_ahead(self, pursuits: Sequence[TaskSearch], strategy: Strategy) -> None:
        """Ask for what can be asked for without a device; the store keeps it for later."""
        waiting = [p for p in pursuits if not p.ended and not p.in_flight]
        while waiting and not self._vigil.is_stopping:
            for pursuit in tuple(waiting):
                batch = _next_batch(strategy, pursuit)
                if isinstance(batch, Later):
                    continue
                waiting.remove(pursuit)
                for proposal in () if isinstance(batch, Enough) else batch:
                    self._intend(pursuit, proposal)
            self._vigil.wait(_POLL_S if waiting else 0)

    def _finish(self, pursuit: TaskSearch, reason: str, bench: Bench) -> None:
        """Try nothing more for a task but the confirmation of what leads it."""
        pursuit.ended = True
        pursuit.reason = reason
        proposal = pursuit.next_to_confirm()
        if proposal is None or len(pursuit.refuted) >= _MOST_REFUTED:
            self._say(TaskEnded(task_id=pursuit.task.fingerprint, reason=reason), log=True)
            return
        trial = self._trials[pursuit.task.fingerprint, proposal.program.id]
        self._confirm(Work(pursuit, proposal, trial, confirms=True), bench)

    def _confirm(self, work: Work, bench: Bench) -> None:
        known = self._known(work, bench)
        if known is None or not was_put_to_the_test(known.evaluation):
            self._queue.add(work)
            return
        if is_confirmed(known.evaluation):
            self._store.crown(known.id)
        self._confirmed(work, known.evaluation, bench, reused=True)

    def _confirmed(
        self,
        work: Work,
        evaluation: Evaluation,
        bench: Bench,
        *,
        reused: bool,
    ) -> None:
        pursuit, program_id = work.pursuit, work.proposal.program.id
        survived = pursuit.confirmed(program_id, evaluation)
        self._say(
            CandidateConfirmed(
                task_id=pursuit.task.fingerprint,
                candidate_id=work.candidate_id,
                status=evaluation.status,
                summary=evaluation.summary,
                rank=rank_of(evaluation) if survived else None,
                reused=reused,
            ),
            log=True,
        )
        if survived:
            ended = TaskEnded(task_id=pursuit.task.fingerprint, reason=pursuit.reason)
            self._say(ended, log=True)
        elif not self._vigil.is_cut_short:
            self._finish(pursuit, pursuit.reason, bench)

    def _halted(self) -> str | None:
        """Say why nothing new may begin, None while it may."""
        if (reason := self._vigil.reason) is not None:
            self._is_capped |= self._vigil.is_out_of_time
            return reason
        used = self._evaluated + self._tool_evaluations()
        used += self._earlier.evaluations if self._resumes else 0
        if self._spec.evaluations is not None and used >= self._spec.evaluations:
            self._is_capped = True
            return f"the {self._spec.evaluations} evaluations that were allowed are done"
        return None

    def _refill(self, pursuits: Sequence[TaskSearch], strategy: Strategy, bench: Bench) -> None:
        """Ask for batches until every worker has something to do or every task waits."""
        for pursuit in self._order(pursuits, bench.info):
            while pursuit.is_ready and len(self._queue) < bench.jobs:
                pursuit.advance()
                batch = _next_batch(strategy, pursuit)
                pursuit.is_pending = isinstance(batch, Later)
                if isinstance(batch, Later):
                    break
                if isinstance(batch, Enough):
                    if pursuit.in_flight:
                        # What is in flight may be worth a repair, or another schedule.
                        pursuit.is_draining = True
                        continue
                    self._is_capped |= batch.is_capped
                    self._finish(pursuit, batch.reason, bench)
                    break
                pursuit.begin(batch)
                works = [self._intend(pursuit, proposal) for proposal in batch]
                for work in works:
                    if not self._reuse(work, bench):
                        self._queue.add(work)

    def _is_suspect(self, candidate_id: str) -> bool:
        return self._suspects.holds(candidate_id)

    def _intend(self, pursuit: TaskSearch, proposal: Proposal) -> Work:
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
        return Work(pursuit, proposal, trial)

    def _known(self, work: Work, bench: Bench) -> KnownEvaluation | None:
        return self._store.known(
            work.pursuit.task.fingerprint,
            work.proposal.program.id,
            environment_of(bench.info),
            evaluator_version=EVALUATOR_VERSION,
        )

    def _reuse(self, work: Work, bench: Bench) -> bool:
        known = self._known(work, bench)
        if known is None or not is_final(known.evaluation):
            return False
        self._store.reuse(work.trial.id, known.id)
        self._announce(work, known.evaluation, reused=True)
        return True

    def _record(self, work: Work, evaluation: Evaluation) -> None:
        self._store.record(work.trial.id, evaluation, rank=rank_of(evaluation))
        self._announce(work, evaluation, reused=False)

    def _announce(self, work: Work, evaluation: Evaluation, *, reused: bool) -> None:
        leads = work.pursuit.judged(work.proposal.program.id, evaluation, reused=reused)
        self._say(
            CandidateJudged(
                task_id=work.pursuit.task.fingerprint,
                candidate_id=work.candidate_id,
                status=evaluation.status,
                summary=evaluation.summary,
                rank=rank_of(evaluation),
                reused=reused,
                leads=leads,
            ),
            log=True,
        )

    def _say(self, event: Event, *, log: bool = False) -> None:
        if log:
            self._store.log(self._campaign_id, type(event).__name__, event.model_dump_json())
        self._listen(event)


def _next_batch(strategy: Strategy, pursuit: TaskSearch) -> list[Proposal] | Enough | Later:
    """Ask the strategy; where it fails, only this task is left."""
    try:
        return strategy.next(pursuit)
    except KernelwrightError:
        raise
    except Exception as e:
        return Enough(f"nothing more can be proposed: {type(e).__name__}: {e}")


def _pursuits(plans: Iterable[FunctionPlan], jobs: int) -> list[TaskSearch]:
    """Return one search for each distinct task, in the order in which it first occurs.

    Where tasks are fewer than workers, each keeps its share of them busy: it is asked for more
    before the last verdicts are there.
    """
    found: dict[str, TaskSearch] = {}
    for plan in plans:
        for planned in plan.tasks:
            task_id = planned.task.fingerprint
            if task_id in found:
                found[task_id].calls += 1
            else:
                found[task_id] = TaskSearch(planned.task, planned.signature)
    lag = math.ceil(jobs / len(found)) if len(found) < jobs and found else 0
    for search in found.values():
        search.lag = lag
    return list(found.values())
