"""What a campaign leaves in the morning, gathered from the store as one record."""

from collections.abc import Mapping, Sequence
from typing import Literal

from kernelwright.campaign.event import CampaignEnded, FunctionPlanned, FunctionRefused, TaskEnded
from kernelwright.campaign.history.ledger import abandoned
from kernelwright.campaign.history.prior_runs import lasted_s
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.campaign.history.run_state import word_for
from kernelwright.campaign.planning.whole_function import whole_gain
from kernelwright.campaign.report.spend import Payment, Spending, payments, spending
from kernelwright.campaign.spec.spec_reading import night_spec_of
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip, predicted_gain
from kernelwright.metal.diagnostic import Record
from kernelwright.store import (
    Campaign,
    Champion,
    Environment,
    HistoryEntry,
    KernelStore,
    Rank,
    TaskSummary,
)

_ALL = 1_000_000
_RIGHT = (Status.CORRECT, Status.PROMOTED)


class Point(Record):
    """The best of a task from a moment on."""

    seconds: float
    """Of running time; nights that were interrupted are joined."""
    dollars: float
    """What models had been paid by then, for all tasks."""
    rank: Rank


class TaskMorning(Record):
    """What became of one task."""

    task: TaskSummary
    tried: int
    right: int
    champion: Champion | None
    """The best candidate; it gains nothing where `gain` does not beat MLX."""
    gain: Gain | None
    predicted: Gain | None
    points: tuple[Point, ...]

    @property
    def beats_mlx(self) -> bool:
        """True where there is a champion to take."""
        return self.gain is not None and self.gain.beats_mlx


class FunctionMorning(Record):
    """What became of one function as a whole."""

    function: str
    inputs: str
    task_ids: tuple[str, ...]
    """One for each region, in graph order."""
    gain: Gain | None
    """None where no region has a champion, or an older log does not say what MLX does."""


class Failure(Record):
    """Verdicts of one kind, and the example that teaches most."""

    status: Status
    count: int
    example_id: str
    task: str
    idea: str
    summary: str
    was_repaired: bool


class Quarantined(Record):
    """A candidate that was in flight when a run died."""

    candidate_id: str
    task: str
    outcome: str


class Morning(Record):
    """The whole report."""

    campaign_id: str
    name: str
    kind: Literal["campaign", "search"]
    """A search goes on by its own command, a campaign by `campaign resume`."""
    state: str
    reason: str
    runs: int
    seconds: float
    environment: Environment
    functions: tuple[FunctionMorning, ...]
    tasks: tuple[TaskMorning, ...]
    failures: tuple[Failure, ...]
    quarantined: tuple[Quarantined, ...]
    spending: tuple[Spending, ...]
    refused: tuple[FunctionRefused, ...]

    @property
    def won(self) -> tuple[TaskMorning, ...]:
        """Tasks with a champion that gains, the greatest gain first."""
        return tuple(t for t in self.ranked if t.beats_mlx)

    @property
    def ranked(self) -> tuple[TaskMorning, ...]:
        """All tasks in the order of every table and plot: by gain, those without one last."""
        return tuple(sorted(self.tasks, key=lambda t: -t.gain.ratio if t.gain else 0.0))

    @property
    def even(self) -> tuple[TaskMorning, ...]:
        """Tasks that ended with MLX's time below that of the best kernel."""
        return tuple(t for t in self.ranked if t.gain and not t.beats_mlx and not self.goes_on)

    @property
    def open(self) -> tuple[TaskMorning, ...]:
        """Tasks of which no verdict can be given: none is won yet, or no figure is known."""
        decided = {t.task.id for t in (*self.won, *self.even)}
        return tuple(t for t in self.tasks if t.task.id not in decided)

    @property
    def goes_on(self) -> bool:
        """True while the run may still find something."""
        return self.state in ("running", "paused")

    def stays_with_mlx(self, function: FunctionMorning) -> str:
        """Say why MLX runs a function that gains nothing."""
        if not function.task_ids:
            return "with MLX"
        return "open" if self.goes_on or function.gain is None else "MLX is best here"

    @property
    def dollars(self) -> float:
        """What models were paid."""
        return sum(row.dollars for row in self.spending)

    @property
    def tried(self) -> int:
        """Candidates over all tasks."""
        return sum(task.tried for task in self.tasks)


def morning_of(store: KernelStore, campaign: Campaign, chip: str | None = None) -> Morning:
    """Gather a run and the dead runs that it took up; `chip` chooses whose time is predicted."""
    campaigns = {c.id: c for c in store.campaigns(limit=_ALL)}
    runs = [campaigns[run] for run in [*abandoned(store, campaign.id), campaign.id]]
    trials = [(run, store.history(campaign=run.id, limit=_ALL)[::-1]) for run in runs]
    latest = _latest(trials)
    champions = {
        c.task.id: c
        for c in store.best(device=campaign.environment.device.name, limit=_ALL)
        if c.chip == campaign.environment.device.chip
    }
    log = [event for run in runs for event in store.events(run.id)]
    plans = [
        FunctionPlanned.model_validate_json(event.body)
        for event in log
        if event.kind == FunctionPlanned.__name__
    ]
    ended_tasks = [
        TaskEnded.model_validate_json(event.body)
        for event in log
        if event.kind == TaskEnded.__name__
    ]
    lost = {task.task_id: task.gain for task in ended_tasks}
    planned = [task for plan in plans for task in plan.tasks]
    tasks = {t.id: t for t in [*planned, *(entry.task for entry in latest.values())]}
    paid = payments(store, runs)
    points = _points(store, trials, paid)
    is_over = word_for(store, campaign) not in ("running", "paused")
    ended = [e for e in store.events(campaign.id) if e.kind == CampaignEnded.__name__]
    refusals = [e for e in store.events(campaign.id) if e.kind == FunctionRefused.__name__]
    became = tuple(
        _task(
            store,
            task,
            latest,
            champions.get(task.id),
            points.get(task.id, ()),
            chip=chip,
            lost=lost.get(task.id),
        )
        for task in tasks.values()
    )
    return Morning(
        campaign_id=shown_id(campaign),
        name=campaign.name,
        kind="campaign" if night_spec_of(campaign) else "search",
        state=word_for(store, campaign),
        reason=CampaignEnded.model_validate_json(ended[-1].body).reason if ended else "",
        runs=len(runs),
        seconds=sum(lasted_s(store, run) for run in runs),
        environment=campaign.environment,
        functions=_functions(plans, became, chip or predicted_chip(campaign.environment.device)),
        tasks=became,
        failures=_failures(store, latest),
        quarantined=_quarantined(trials if is_over else trials[:-1], latest),
        spending=spending(store, runs, tasks),
        refused=tuple(FunctionRefused.model_validate_json(e.body) for e in refusals),
    )


_Trials = Sequence[tuple[Campaign, Sequence[HistoryEntry]]]


def _latest(trials: _Trials) -> dict[str, HistoryEntry]:
    """Return each candidate's last turn that has a verdict, else its last."""
    latest: dict[str, HistoryEntry] = {}
    for _, entries in trials:
        for entry in entries:
            known = latest.get(entry.candidate_id)
            if known is None or entry.status is not None or known.status is None:
                latest[entry.candidate_id] = entry
    return latest


def _task(
    store: KernelStore,
    task: TaskSummary,
    latest: Mapping[str, HistoryEntry],
    champion: Champion | None,
    points: Sequence[Point],
    *,
    chip: str | None,
    lost: Gain | None,
) -> TaskMorning:
    gain = predicted = None if champion else lost
    if champion is not None:
        detail = store.show(champion.candidate_id)
        known = next(e for e in detail.evaluations if e.id == champion.evaluation_id)
        gain = gain_of(known.evaluation, detail.graph, chip)
        for_chip = chip or predicted_chip(known.evaluation.device)
        predicted = predicted_gain(known.evaluation, detail.graph, for_chip) or gain
    entries = [entry for entry in latest.values() if entry.task.id == task.id]
    return TaskMorning(
        task=task,
        tried=sum(entry.state == "done" or entry.status is not None for entry in entries),
        right=sum(entry.status in _RIGHT for entry in entries),
        champion=champion,
        gain=gain,
        predicted=predicted,
        points=tuple(points),
    )


def _functions(
    plans: Sequence[FunctionPlanned], tasks: Sequence[TaskMorning], chip: str
) -> tuple[FunctionMorning, ...]:
    """Say of each function, as it was planned last, what it gains as a whole."""
    gains = {t.task.id: t.gain for t in tasks if t.gain}
    predicted = {t.task.id: t.predicted for t in tasks if t.predicted}
    latest = {(plan.function, plan.inputs): plan for plan in plans}
    found = []
    for plan in latest.values():
        task_ids = tuple(task.id for task in plan.tasks)
        gain = plan.work and whole_gain(plan.work, task_ids, gains, predicted, chip)
        found.append(
            FunctionMorning(
                function=plan.function, inputs=plan.inputs, task_ids=task_ids, gain=gain
            )
        )
    return tuple(found)


def _points(store: KernelStore, trials: _Trials, paid: Sequence[Payment]) -> dict[str, list[Point]]:
    points: dict[str, list[Point]] = {}
    before = 0.0
    for run, entries in trials:
        for entry in entries:
            if entry.rank is None or entry.status not in _RIGHT:
                continue
            line = points.setdefault(entry.task.id, [])
            if not line or entry.rank.value < line[-1].rank.value:
                seconds = before + max((entry.at - run.started_at).total_seconds(), 0.0)
                dollars = sum(p.dollars for p in paid if p.at <= entry.at)
                line.append(Point(seconds=seconds, dollars=dollars, rank=entry.rank))
        before += lasted_s(store, run)
    return points


def _failures(store: KernelStore, latest: Mapping[str, HistoryEntry]) -> tuple[Failure, ...]:
    by_status: dict[Status, list[HistoryEntry]] = {}
    for entry in latest.values():
        if entry.status is not None and entry.status not in _RIGHT:
            by_status.setdefault(entry.status, []).append(entry)
    mended = _mended(store, latest) if by_status else frozenset[str]()
    return tuple(
        _failure(status, entries, mended)
        for status, entries in sorted(by_status.items(), key=lambda pair: -len(pair[1]))
    )


def _failure(status: Status, entries: Sequence[HistoryEntry], mended: frozenset[str]) -> Failure:
    """A failure that somebody mended teaches most; else the one that says most about itself."""
    best = max(entries, key=lambda e: (e.candidate_id in mended, len(e.summary)))
    return Failure(
        status=status,
        count=len(entries),
        example_id=best.candidate_id,
        task=best.task.name,
        idea=best.idea,
        summary=best.summary,
        was_repaired=best.candidate_id in mended,
    )


def _mended(store: KernelStore, latest: Mapping[str, HistoryEntry]) -> frozenset[str]:
    right = [entry.candidate_id for entry in latest.values() if entry.status in _RIGHT]
    parents = [store.show(candidate_id).lineage[:1] for candidate_id in right]
    return frozenset(parent.id for line in parents for parent in line)


def _quarantined(trials: _Trials, latest: Mapping[str, HistoryEntry]) -> tuple[Quarantined, ...]:
    in_flight = {
        entry.candidate_id: entry
        for run, entries in trials
        for entry in entries
        if entry.state in ("evaluating", "confirming") and entry.campaign_id == run.id
    }
    return tuple(
        Quarantined(
            candidate_id=id_,
            task=entry.task.name,
            outcome=str(latest[id_].status or "not tried again yet"),
        )
        for id_, entry in in_flight.items()
    )
