"""Gathers the report of a campaign from the store."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kernelwright.campaign.event import FunctionPlanned, FunctionRefused, ModelRemarked, TaskEnded
from kernelwright.campaign.history.prior_runs import lasted_s
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.campaign.history.run_state import RIGHT, reason_of, word_for
from kernelwright.campaign.planning.whole_function import whole_gain
from kernelwright.campaign.report.campaign_report import (
    CampaignReport,
    Failure,
    FunctionResult,
    Point,
    Quarantined,
    TaskResult,
)
from kernelwright.campaign.report.spend import payments, spending
from kernelwright.campaign.report.step_gain import step_lines
from kernelwright.campaign.spec.spec_reading import campaign_spec_of
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip
from kernelwright.ir.graph import Graph
from kernelwright.store import (
    Campaign,
    Champion,
    KernelStore,
    TaskSummary,
)
from kernelwright.store.browsing import FailedVerdicts, TaskVerdicts


def report_of(store: KernelStore, campaign: Campaign, chip: str | None = None) -> CampaignReport:
    """Gather a run and the dead runs that it took up; `chip` chooses whose time is predicted."""
    runs = _runs_until(store, campaign)
    run_ids = [run.id for run in runs]
    plans, lost = _planned(store, run_ids)
    found = {verdicts.task.id: verdicts for verdicts in store.browse.verdicts(run_ids)}
    tasks = {task.id: task for plan in plans for task in plan.tasks}
    tasks |= {id_: verdicts.task for id_, verdicts in found.items() if id_ not in tasks}
    gains = _gains(store, campaign, list(tasks), chip)
    points = _points(store, runs)
    is_over = word_for(store, campaign) not in ("running", "paused")
    became = tuple(
        _task(task, found.get(id_), gains.get(id_), points.get(id_, ()), lost.get(id_))
        for id_, task in tasks.items()
    )
    refusals = store.events(campaign.id, kinds=(FunctionRefused.__name__,))
    remarks = [e for run in run_ids for e in store.events(run, kinds=(ModelRemarked.__name__,))]
    return CampaignReport(
        campaign_id=shown_id(campaign),
        name=campaign.name,
        kind="campaign" if campaign_spec_of(campaign) else "search",
        state=word_for(store, campaign),
        reason=reason_of(store, campaign),
        runs=len(runs),
        seconds=sum(lasted_s(store, run) for run in runs),
        environment=campaign.environment,
        functions=_functions(plans, became, chip or predicted_chip(campaign.environment.device)),
        tasks=became,
        failures=tuple(map(_failure, store.browse.failures(run_ids))),
        quarantined=_quarantined(store, run_ids, run_ids if is_over else run_ids[:-1]),
        spending=spending(store, run_ids, tasks),
        steps=step_lines(store, run_ids),
        refused=tuple(e.read(FunctionRefused) for e in refusals),
        unusable=store.browse.unusable_replies(run_ids),
        remarks=tuple(dict.fromkeys(e.read(ModelRemarked).sentence for e in remarks)),
    )


@dataclass(frozen=True)
class _Champion:
    """A champion, what it gains, and what is predicted of it."""

    champion: Champion
    gain: Gain
    predicted: Gain


def _runs_until(store: KernelStore, campaign: Campaign) -> list[Campaign]:
    """Return the runs of a campaign up to one of them, the first one first."""
    runs = list(store.runs(shown_id(campaign))) or [campaign]
    ids = [run.id for run in runs]
    return runs[: ids.index(campaign.id) + 1]


def _planned(
    store: KernelStore, run_ids: Sequence[str]
) -> tuple[list[FunctionPlanned], dict[str, Gain | None]]:
    """Return the plans of some runs, and by how much MLX was left ahead of ended tasks."""
    kinds = (FunctionPlanned.__name__, TaskEnded.__name__)
    log = [event for run in run_ids for event in store.events(run, kinds=kinds)]
    plans = [e.read(FunctionPlanned) for e in log if e.kind == kinds[0]]
    ended = [e.read(TaskEnded) for e in log if e.kind == kinds[1]]
    return plans, {task.task_id: task.gain for task in ended}


def _gains(
    store: KernelStore, campaign: Campaign, task_ids: Sequence[str], chip: str | None
) -> dict[str, _Champion]:
    """Return the champions of tasks on the campaign's chip, by task."""
    device = campaign.environment.device
    champions = store.champions(task_ids, device=device.name, chip=device.chip)
    verdicts = store.verdicts([champion.evaluation_id for champion in champions])
    found = {}
    for champion in champions:
        verdict = verdicts[champion.evaluation_id]
        evaluation, graph = verdict.evaluation, verdict.graph
        gain = gain_of(evaluation, graph, chip)
        predicted = _predicted(gain, evaluation, graph, chip or predicted_chip(evaluation.device))
        found[champion.task.id] = _Champion(champion, gain, predicted)
    return found


def _predicted(gain: Gain, evaluation: Evaluation, graph: Graph, chip: str) -> Gain:
    """Return what is predicted on a chip; where nothing is, what else is known of the gain."""
    if gain.kind == "predicted" and gain.chip == chip:
        return gain
    # Only some verdicts need the rules of planning, which take long to import.
    from kernelwright.evaluator.predicted_gain import predicted_gain

    return predicted_gain(evaluation, graph, chip) or gain


def _task(
    task: TaskSummary,
    verdicts: TaskVerdicts | None,
    leader: _Champion | None,
    points: Sequence[Point],
    lost: Gain | None,
) -> TaskResult:
    return TaskResult(
        task=task,
        tried=verdicts.tried if verdicts else 0,
        right=sum(verdicts.verdicts.get(status, 0) for status in RIGHT) if verdicts else 0,
        champion=leader.champion if leader else None,
        gain=leader.gain if leader else lost,
        predicted=leader.predicted if leader else lost,
        points=tuple(points),
    )


def _functions(
    plans: Sequence[FunctionPlanned], tasks: Sequence[TaskResult], chip: str
) -> tuple[FunctionResult, ...]:
    """Say of each function, as it was planned last, what it gains as a whole."""
    gains = {t.task.id: t.gain for t in tasks if t.gain}
    predicted = {t.task.id: t.predicted for t in tasks if t.predicted}
    latest = {(plan.function, plan.inputs): plan for plan in plans}
    found = []
    for plan in latest.values():
        task_ids = tuple(task.id for task in plan.tasks)
        gain = plan.work and whole_gain(plan.work, task_ids, gains, predicted, chip)
        found.append(
            FunctionResult(function=plan.function, inputs=plan.inputs, task_ids=task_ids, gain=gain)
        )
    return tuple(found)


def _points(store: KernelStore, runs: Sequence[Campaign]) -> dict[str, list[Point]]:
    """Draw each task's best over running time and what models had been paid by then."""
    paid = payments(store, [run.id for run in runs])
    moments = [payment.at for payment in paid]
    dollars = [0.0, *accumulate(payment.dollars for payment in paid)]
    before = dict(
        zip(
            (run.id for run in runs),
            accumulate((lasted_s(store, run) for run in runs), initial=0.0),
            strict=False,
        )
    )
    began = {run.id: run.started_at for run in runs}
    points: dict[str, list[Point]] = {}
    for one in store.browse.improvements(list(began)):
        point = Point(
            seconds=before[one.run_id] + max((one.at - began[one.run_id]).total_seconds(), 0.0),
            dollars=dollars[bisect_right(moments, one.at)],
            rank=one.rank,
        )
        points.setdefault(one.task_id, []).append(point)
    return points


def _failure(found: FailedVerdicts) -> Failure:
    return Failure(
        status=found.status,
        count=found.count,
        example_id=found.example.candidate_id,
        task=found.example.task.name,
        idea=found.example.idea,
        summary=found.example.summary,
        was_repaired=found.was_mended,
    )


def _quarantined(
    store: KernelStore, run_ids: Sequence[str], dead: Sequence[str]
) -> tuple[Quarantined, ...]:
    """Return what was judged when a run died, and what became of it."""
    in_flight = {
        entry.candidate_id: entry
        for entry in store.browse.open_trials(dead)
        if entry.state in ("evaluating", "confirming")
    }
    outcome: dict[str, Status] = {}
    for turn in store.browse.turns_of(run_ids, list(in_flight)):
        if turn.status is not None:
            outcome[turn.candidate_id] = turn.status
    return tuple(
        Quarantined(
            candidate_id=id_,
            task=entry.task.name,
            outcome=str(outcome.get(id_, "not tried again yet")),
        )
        for id_, entry in in_flight.items()
    )
