"""One run of a search: begin it, plan its tasks, let them be searched, and end it in order."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from kernelwright.campaign.event import CampaignBegan, CampaignEnded, Event
from kernelwright.campaign.execution.crash_quarantine import CrashQuarantine
from kernelwright.campaign.execution.executor import Executor, ExecutorFactory, LocalExecutors
from kernelwright.campaign.execution.function_cutting import plan_functions
from kernelwright.campaign.execution.judge import MakeJudge
from kernelwright.campaign.execution.run_control import RunControl
from kernelwright.campaign.execution.run_settings import CampaignTeam, RunSettings
from kernelwright.campaign.execution.scheduler import Scheduler
from kernelwright.campaign.execution.trial_log import TrialLog, logged
from kernelwright.campaign.history.changed_functions import changed_functions
from kernelwright.campaign.history.heartbeat import Heartbeat
from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.history.prior_runs import Earlier, earlier_runs, lasted_s
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.campaign.history.warm_start import recall
from kernelwright.campaign.planning.capturing import Captured, FunctionPlan
from kernelwright.campaign.planning.plan_record import record_of
from kernelwright.campaign.report.known_champions import leaders
from kernelwright.campaign.report.search_report import SearchReport, TaskReport, with_whole_gains
from kernelwright.campaign.spec.spec_reading import goes_on_with
from kernelwright.errors import (
    BlockedError,
    DeviceError,
    KernelwrightError,
    OutdatedError,
    StoreError,
)
from kernelwright.search.search import Search, share_workers
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import RepairThenWrite, Team
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Campaign, CampaignState, KernelStore
from kernelwright.timeline import span

_LOST = "another process has taken the run up"


_USUAL = RunSettings()


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
        judges: MakeJudge | ExecutorFactory,
        settings: RunSettings = _USUAL,
    ) -> None:
        """Prepare a search on judges of this process, or on whatever a factory opens."""
        self._store = store
        self._spec = spec
        self._team = team
        self._executors = judges if isinstance(judges, ExecutorFactory) else LocalExecutors(judges)
        self._settings = settings
        self._listen = settings.listen
        self._open_team = settings.team_factory or self._keep_team
        self._control = RunControl(settings.pause or Pause(), settings.listen)
        self._earlier = Earlier()
        self._campaign_id = ""

    def stop(self) -> None:
        """End in order: nothing new is begun, what ends within seconds is recorded.

        Safe in a signal handler.
        """
        self._control.stop()

    def run(self, captured: Captured) -> SearchReport:
        """Search every captured function; return what was found.

        A device that fails is left alone for a while, then parked; writes wait while the
        store's disk is full.

        Raises:
            DeviceError: the device does not open.
            InputError: another process, or another thread, runs the same search.
            StoreError: the store failed; what it acknowledged is kept.
        """
        self._spec = self._spec.of([function.graph.fingerprint for function in captured.functions])
        with (
            self._opened() as executor,
            self._store.waiting_when_blocked(self._control.wait_for_room),
        ):
            # The clock runs before the first write, for which a full disk may have no room.
            self._control.begin(self._spec.seconds, 0.0)
            self._begin(executor, captured)
            with self._heartbeat().beating(), self._failing_in_order():
                opened = self._open_team(self._campaign_id, executor)
                with span("plan"):
                    plans = self._planned(captured, opened.team, executor)
                searches = _searches(plans, executor.width)
                self._keep(searches, executor)
                search = Search(
                    searches, opened.strategy, executor.info, order=self._settings.order
                )
                # Planning ends with the time, too.
                search.is_cut_off = len(plans) < len(captured.functions)
                scheduler = self._scheduler(search, executor)
                reason = self._run(scheduler, executor)
            ended = self._end(reason, is_capped=scheduler.is_capped, cap=scheduler.cap)
        # A run that was cut short did not confirm what an earlier one had won.
        unwon = [p.task.fingerprint for p in searches if p.champion is None]
        known = leaders(self._store, unwon, executor.info)
        tasks = tuple(
            TaskReport.of(p, self._settings.chip, known=known.get(p.task.fingerprint))
            for p in searches
        )
        return SearchReport(
            campaign_id=shown_id(self._store.campaign(self._campaign_id)),
            store=self._store.label,
            device=executor.info,
            functions=with_whole_gains(
                [plan.report for plan in plans], tasks, executor.info, self._settings.chip
            ),
            refused=captured.refused,
            tasks=tasks,
            unusable=self._store.browse.unusable_replies([self._campaign_id]),
            evaluated=scheduler.evaluated,
            duration_s=lasted_s(self._store, self._store.campaign(self._campaign_id)),
            ended=ended,
        )

    def _opened(self) -> Executor:
        with span("open the device"):
            return self._executors.open(self._spec.jobs, self._control.rest, self._settings.care)

    def _keep_team(self, campaign_id: str, executor: Executor) -> CampaignTeam:
        return CampaignTeam(self._team, RepairThenWrite(self._team, executor.info, self._spec))

    def _begin(self, executor: Executor, captured: Captured) -> None:
        names = tuple(function.subject.name for function in captured.functions)
        campaign = self._store.begin_campaign(
            name=self._spec.name or ", ".join(names)[:200],
            spec=self._spec.model_dump_json(),
            environment=executor.environment,
            continues=self._continues,
            root_id=self._settings.root_id,
        )
        self._campaign_id = campaign.id
        self._earlier = earlier_runs(self._store, campaign.id)
        self._control.begin(
            self._spec.seconds, self._earlier.seconds if self._settings.resumes else 0.0
        )
        *before, _ = self._store.runs(shown_id(campaign))
        graphs = [(f.subject.name, f.graph.fingerprint) for f in captured.functions]
        began = CampaignBegan(
            campaign_id=campaign.id,
            device=executor.info,
            store=self._store.label,
            functions=names,
            shown_id=shown_id(campaign),
            goes_on_from=before[-1].started_at if before else None,
            changed=changed_functions(self._store, before, graphs),
        )
        self._say(began, log=True)
        for refusal in captured.refused:
            self._say(refusal, log=True)

    def _continues(self, run: Campaign) -> bool:
        """Say whether a run is one of this search; one that its caps ended needs other caps."""
        is_over = run.state == "capped" and run.spec == self._spec.model_dump_json()
        return not is_over and goes_on_with(self._spec, run)

    def _planned(self, captured: Captured, team: Team, executor: Executor) -> list[FunctionPlan]:
        plans: list[FunctionPlan] = []
        for plan in plan_functions(captured, team.planner, executor.info, self._control):
            plans.append(plan)
            self._say(plan.event, log=True)
            if (drawn := record_of(plan)) is not None:
                self._store.log(self._campaign_id, *logged(drawn))
        return plans

    def _keep(self, searches: Sequence[TaskSearch], executor: Executor) -> None:
        """Write the tasks down, and begin each with what the store knows of its like."""
        for search in searches:
            self._store.keep_task(
                search.task,
                signature=search.signature,
                campaign_id=self._campaign_id,
                function=search.task.name.partition("/")[0],
            )
        recall(self._store, self._campaign_id, searches, executor.info)

    def _scheduler(self, search: Search, executor: Executor) -> Scheduler:
        trials = TrialLog(
            self._store, self._campaign_id, search, executor.environment, self._listen
        )
        return Scheduler(
            search,
            executor,
            trials,
            self._control,
            CrashQuarantine(self._earlier.in_flight, self._spec.most_deaths),
            self._spec,
            used=self._earlier.evaluations if self._settings.resumes else 0,
        )

    def _run(self, scheduler: Scheduler, executor: Executor) -> str:
        try:
            return scheduler.run()
        except OutdatedError as e:
            # What models asked for met it, of which the scheduler hears no verdict.
            executor.close()
            reason = str(e).rstrip(".")
            self._control.stop(reason)
            return reason
        except BaseException:
            # Workers end before anybody waits for their threads: a second Ctrl-C ends at once.
            executor.close()
            raise

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            self._store,
            self._campaign_id,
            lease=timedelta(seconds=self._spec.lease_s),
            elapsed_s=self._control.elapsed_s,
            when_lost=lambda: self._control.stop(_LOST),
        )

    def _end(self, reason: str, *, is_capped: bool, cap: str) -> CampaignEnded:
        is_cut_short = self._control.is_cut_short
        state: CampaignState = "interrupted" if is_cut_short else "finished"
        if is_capped and not is_cut_short:
            state = "capped"
        self._store.end_campaign(self._campaign_id, state, elapsed_s=self._control.elapsed_s())
        ended = CampaignEnded(
            campaign_id=self._campaign_id,
            reason=reason,
            interrupted=is_cut_short,
            parked=bool(self._control.parked),
            capped=state == "capped",
            cap=cap,
        )
        self._say(ended, log=True)
        return ended

    @contextmanager
    def _failing_in_order(self) -> Iterator[None]:
        try:
            yield
        except BaseException as e:
            gave_up = isinstance(e, BlockedError) and self._control.is_stopping
            # Nobody waits for room in the store any more.
            self._control.stop()
            if gave_up or isinstance(e, KeyboardInterrupt):
                self._end_at_once()
            else:
                self._fail(e)
            raise

    def _end_at_once(self) -> None:
        """Write down, where the store takes it, that somebody ended the run: no candidate did."""
        ended = CampaignEnded(campaign_id=self._campaign_id, reason="interrupted", interrupted=True)
        with suppress(StoreError):
            self._store.end_campaign(
                self._campaign_id, "interrupted", elapsed_s=self._control.elapsed_s()
            )
            self._store.log(self._campaign_id, *logged(ended))

    def _fail(self, error: BaseException) -> None:
        # A failed device may be a candidate's fault: without an end, what was in flight is
        # suspected. A failed store takes no line.
        if isinstance(error, KernelwrightError) and not isinstance(error, DeviceError | StoreError):
            self._log_failure(error)
        self._store.end_campaign(self._campaign_id, "failed", elapsed_s=self._control.elapsed_s())

    def _log_failure(self, error: KernelwrightError) -> None:
        ended = CampaignEnded(
            campaign_id=self._campaign_id, reason=str(error).rstrip("."), interrupted=False
        )
        self._store.log(self._campaign_id, *logged(ended))

    def _say(self, event: Event, *, log: bool = False) -> None:
        if log:
            self._store.log(self._campaign_id, *logged(event))
        self._listen(event)


def _searches(plans: Iterable[FunctionPlan], jobs: int) -> list[TaskSearch]:
    """Return one search for each distinct task, in the order in which it first occurs."""
    found: dict[str, TaskSearch] = {}
    for plan in plans:
        for planned in plan.tasks:
            task_id = planned.task.fingerprint
            if task_id in found:
                found[task_id].calls += 1
            else:
                found[task_id] = TaskSearch(planned.task, planned.signature)
    share_workers(found.values(), jobs)
    return list(found.values())
