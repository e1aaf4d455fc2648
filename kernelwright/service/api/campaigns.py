"""Campaigns as the API tells them: how they stand, their tasks, logs, spend and plans."""

from collections.abc import Sequence
from typing import Literal

from kernelwright.campaign.event import CampaignEnded, FunctionPlanned
from kernelwright.campaign.history.prior_runs import lasted_s
from kernelwright.campaign.history.resuming import current, is_alive, searches, shown_id
from kernelwright.campaign.history.run_state import RunState, not_running
from kernelwright.campaign.report.live_status import UnderWay, limits_of
from kernelwright.campaign.spec.spec_reading import campaign_spec_of, search_spec_of
from kernelwright.errors import InputError
from kernelwright.search.spec import SearchSpec
from kernelwright.service.api.cursor import cursor_of, line_of, read_cursor
from kernelwright.service.api.recent import known_state, task_rows
from kernelwright.service.api.record import (
    CampaignPage,
    EventPage,
    RunPart,
    SpendCurve,
    TaskOrder,
    TaskTable,
)
from kernelwright.store import Campaign, KernelStore, LoggedEvent
from kernelwright.store.browsing import ListedTask, TrialFilter

_MOST_UNDER_WAY = 50
_KINDS = ("measured", "predicted", "traffic")


def campaign_list(store: KernelStore, *, limit: int) -> list[RunState]:
    """Return campaigns and searches, newest first, as `campaign status --json` does."""
    return [known_state(store, run) for run in current(searches(store))[:limit]]


def newest_run(store: KernelStore, prefix: str) -> Campaign:
    """Return the newest run of a campaign, by the first digits of any of its runs' ids.

    Raises:
        InputError: none or several begin like this.
    """
    return store.runs(shown_id(store.campaign(prefix)))[-1]


def runs_of(store: KernelStore, prefix: str) -> tuple[Campaign, ...]:
    """Return the runs of a campaign, the first one first."""
    return store.runs(shown_id(store.campaign(prefix)))


def campaign_page(store: KernelStore, prefix: str) -> CampaignPage:
    """Return how a campaign stands."""
    runs = runs_of(store, prefix)
    newest = runs[-1]
    # Before all else: what happens meanwhile is told twice rather than not at all.
    cursor = cursor_of(store.browse.last_event_ids([run.id for run in runs]))
    state = known_state(store, newest)
    alive = is_alive(newest)
    ended = store.events(newest.id, kinds=(CampaignEnded.__name__,))
    waiting = store.browse.totals([newest.id]).waiting if alive else 0
    return CampaignPage(
        state=state,
        environment=newest.environment,
        runs=tuple(_part(store, run) for run in runs),
        limits=limits_of(search_spec_of(newest) or SearchSpec()),
        reason=ended[-1].read(CampaignEnded).reason if ended else "",
        under_way=_under_way(store, newest) if alive else (),
        waiting=waiting,
        is_alive=alive,
        commands=_commands(newest, state, alive=alive),
        advice=_advice(newest, state),
        cursor=cursor,
    )


def _part(store: KernelStore, run: Campaign) -> RunPart:
    return RunPart(
        id=run.id,
        state=run.state,
        started_at=run.started_at,
        ended_at=run.ended_at,
        seconds=lasted_s(store, run),
    )


def _under_way(store: KernelStore, run: Campaign) -> tuple[UnderWay, ...]:
    page = store.browse.trials(
        TrialFilter(run_ids=(run.id,), is_under_way=True), limit=_MOST_UNDER_WAY
    )
    return tuple(
        UnderWay.model_validate(
            {
                "candidate_id": entry.candidate_id,
                "task": entry.task.name,
                "idea": entry.idea,
                "state": entry.state,
            }
        )
        for entry in page.items
    )


def _commands(
    run: Campaign, state: RunState, *, alive: bool
) -> tuple[Literal["pause", "resume", "stop"], ...]:
    if not alive or campaign_spec_of(run) is None:
        return ()
    return ("resume", "stop") if state.state == "paused" else ("pause", "stop")


def _advice(run: Campaign, state: RunState) -> str:
    if state.kind == "search" or state.state in ("running", "paused", "finished"):
        return ""
    return f"kernelwright campaign resume {shown_id(run)[:8]}"


def planned_functions(store: KernelStore, runs: Sequence[Campaign]) -> tuple[FunctionPlanned, ...]:
    """Return how the functions of a campaign were cut, each as it was planned last."""
    plans = [
        event.read(FunctionPlanned)
        for run in runs
        for event in store.events(run.id, kinds=(FunctionPlanned.__name__,))
    ]
    return tuple({(plan.function, plan.inputs): plan for plan in plans}.values())


def task_table(
    store: KernelStore,
    prefix: str | None,
    *,
    order: TaskOrder,
    descending: bool,
    text: str,
    offset: int,
    limit: int,
) -> TaskTable:
    """Return rows of the task table of a campaign, or of the whole store."""
    rows = task_rows(store, runs_of(store, prefix) if prefix else None)
    found = [row for row in rows if _fits(row, text.lower())] if text else list(rows)
    known = [row for row in found if _key(row, order) is not None]
    unknown = [row for row in found if _key(row, order) is None]
    known.sort(key=lambda row: _key(row, order) or (), reverse=descending)
    return TaskTable(items=tuple([*known, *unknown][offset : offset + limit]), total=len(found))


def campaign_tasks(store: KernelStore, prefix: str) -> tuple[ListedTask, ...]:
    """Return the tasks of a campaign with the champions of its own device."""
    return task_rows(store, runs_of(store, prefix))


def _fits(row: ListedTask, text: str) -> bool:
    task = row.task
    said = (task.name, task.signature, task.dtype, task.shapes, task.id)
    return any(text in part.lower() for part in said)


def _key(row: ListedTask, order: TaskOrder) -> tuple[float | str, ...] | None:
    """Return what a row is ordered by; None comes last in either direction."""
    match order:
        case "gain":
            gain = row.speedup
            return None if gain is None else (float(gain.kind == "measured"), gain.ratio)
        case "best":
            return None if row.best is None else (_KINDS.index(row.best.kind), row.best.value)
        case "name":
            return (row.task.name.lower(),)
        case "tried":
            return (row.tried,)
        case "right":
            return (row.right,)
        case "spent":
            return (row.spend.microdollars, row.spend.tokens)


def event_page(
    store: KernelStore, prefix: str, *, after: str | None, latest: int | None, limit: int
) -> EventPage:
    """Return lines of a campaign's log: the latest, or the next after a cursor."""
    runs = [run.id for run in runs_of(store, prefix)]
    ends = store.browse.last_event_ids(runs)
    total = store.browse.event_count(ends)
    if latest is not None:
        items = store.browse.latest_events(ends, limit=latest)
        return EventPage(items=items, cursor=cursor_of(ends), total=total)
    reached = read_cursor(after or "")
    last = {run: line_of(reached, run) for run in runs}
    found: list[LoggedEvent] = []
    for run in runs:
        if len(found) < limit:
            lines = store.browse.events_after(run, last[run], limit=limit - len(found))
            found += lines
            last[run] = lines[-1].id if lines else last[run]
    return EventPage(items=tuple(found), cursor=cursor_of(last), total=total)


def spend_curve(store: KernelStore, prefix: str) -> SpendCurve:
    """Return what a campaign paid over time."""
    runs = runs_of(store, prefix)
    paid = store.browse.payments([run.id for run in runs])
    newest = runs[-1]
    return SpendCurve(
        payments=paid,
        started_at=runs[0].started_at,
        ended_at=newest.ended_at or newest.heartbeat_at,
        dollars=sum(payment.dollars for payment in paid),
        known_dollars=sum(payment.known_dollars for payment in paid),
        tokens=sum(payment.tokens for payment in paid),
    )


def require_alive(store: KernelStore, prefix: str) -> Campaign:
    """Return a campaign's newest run, which goes on.

    Raises:
        InputError: it does not, or it is a search, which its own terminal stops.
    """
    run = newest_run(store, prefix)
    if not is_alive(run):
        raise InputError(not_running(run))
    if campaign_spec_of(run) is None:
        raise InputError(
            f"{shown_id(run)[:8]} ({run.name}) is a search; Ctrl-C in its own terminal ends it."
        )
    return run
