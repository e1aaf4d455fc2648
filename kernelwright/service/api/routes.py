"""The addresses of the read API; each answers with one record or a list of them."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from kernelwright.agents.session.transcript import Transcript
from kernelwright.campaign.history.resuming import history_of
from kernelwright.campaign.history.run_state import RunState
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.champion_list import (
    CandidatePage,
    RankedChampion,
    champions_by_gain,
)
from kernelwright.campaign.report.live_status import LiveStatus, StatusReader
from kernelwright.campaign.report.report_query import report_of
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.device.base import DeviceName
from kernelwright.service.api import campaigns, plans, tasks
from kernelwright.service.api.cursor import read_cursor
from kernelwright.service.api.recent import trial_page
from kernelwright.service.api.record import (
    CampaignPage,
    CandidateDiff,
    Comparison,
    EventPage,
    PlannedFunction,
    Roofline,
    SearchResult,
    SourceText,
    SpendCurve,
    TaskOrder,
    TaskPage,
    TaskTable,
)
from kernelwright.service.api.reply import redactor_of
from kernelwright.service.api.stream import EventStream
from kernelwright.store import HistoryEntry, KernelStore, StoreStatistics
from kernelwright.store.browsing import CandidateNode, CandidateOrder, TrialFilter, TrialPage

_MOST_ROWS = 1_000
Limit = Annotated[int, Query(ge=1, le=_MOST_ROWS)]
Offset = Annotated[int, Query(ge=0, le=100_000_000)]
Words = Annotated[str, Query(max_length=200)]

routes = APIRouter(prefix="/api/v1")


def store_of(request: Request) -> KernelStore:
    """Return the store that the server reads."""
    store: KernelStore = request.app.state.store
    return store


Store = Annotated[KernelStore, Depends(store_of)]


@routes.get("/store", tags=["store"])
def read_store(store: Store) -> StoreStatistics:
    """Say how much the store holds."""
    return store.statistics()


@routes.get("/search", tags=["store"])
def search(store: Store, q: Annotated[str, Query(max_length=200)]) -> SearchResult:
    """Find tasks, candidates and campaigns by a part of their name, idea, types or id."""
    return tasks.search(store, q)


@routes.get("/champions", tags=["store"])
def list_champions(
    store: Store,
    op: str | None = None,
    dtype: str | None = None,
    shape: str | None = None,
    device: DeviceName | None = None,
    chip: str | None = None,
    limit: Limit = 50,
) -> Sequence[RankedChampion]:
    """List champions, those that gain most first, as `kernelwright best --json` does."""
    return champions_by_gain(
        store, op=op, dtype=dtype, shape=shape, device=device, chip=chip, limit=limit
    )


@routes.get("/history", tags=["store"])
def list_history(
    store: Store,
    campaign: str | None = None,
    task: str | None = None,
    status: Status | None = None,
    limit: Limit = 50,
) -> Sequence[HistoryEntry]:
    """List what was tried, newest first, as `kernelwright history --json` does."""
    return history_of(store, campaign, task=task, status=status, limit=limit)


@routes.get("/campaigns", tags=["campaigns"])
def list_campaigns(store: Store, limit: Limit = 50) -> Sequence[RunState]:
    """List campaigns, newest first, as `kernelwright campaign status --json` does."""
    return campaigns.campaign_list(store, limit=limit)


@routes.get("/campaigns/{id}", tags=["campaigns"])
def read_campaign(store: Store, id: str) -> CampaignPage:  # noqa: A002
    """Say how a campaign stands."""
    return campaigns.campaign_page(store, id)


@routes.get("/campaigns/{id}/tasks", tags=["campaigns"])
def list_campaign_tasks(
    store: Store,
    id: str,  # noqa: A002
    order: TaskOrder = "gain",
    descending: bool = True,
    q: Words = "",
    offset: Offset = 0,
    limit: Limit = 100,
) -> TaskTable:
    """List the tasks of a campaign: best, attempts, spend and gain."""
    return campaigns.task_table(
        store, id, order=order, descending=descending, text=q, offset=offset, limit=limit
    )


@routes.get("/campaigns/{id}/outlook", tags=["campaigns"])
def read_outlook(store: Store, id: str, chip: str | None = None) -> LiveStatus:  # noqa: A002
    """Say how a campaign stands, as `kernelwright campaign watch --json` does."""
    return StatusReader(store, campaigns.newest_run(store, id), chip).look()


@routes.get("/campaigns/{id}/report", tags=["campaigns"])
def read_report(store: Store, id: str, chip: str | None = None) -> CampaignReport:  # noqa: A002
    """Say what a campaign leaves, as `kernelwright report --json` does."""
    return report_of(store, campaigns.newest_run(store, id), chip)


@routes.get("/campaigns/{id}/plans", tags=["campaigns"])
def list_plans(store: Store, id: str) -> Sequence[PlannedFunction]:  # noqa: A002
    """List how the functions of a campaign were cut into kernels."""
    return plans.planned(store, id)


@routes.get(
    "/campaigns/{id}/plans/{number}.svg",
    tags=["campaigns"],
    response_class=Response,
    responses={200: {"content": {"image/svg+xml": {}}}},
)
def draw_plan(
    store: Store,
    id: str,  # noqa: A002
    number: Annotated[int, Path(ge=0)],
) -> Response:
    """Draw a function's graph with its regions; the picture has a style sheet and no script."""
    headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
    drawing = plans.plan_svg(store, id, number)
    return Response(drawing, media_type="image/svg+xml", headers=headers)


@routes.get("/campaigns/{id}/spend", tags=["campaigns"])
def read_spend(store: Store, id: str) -> SpendCurve:  # noqa: A002
    """Say what a campaign paid its models, over time."""
    return campaigns.spend_curve(store, id)


@routes.get("/campaigns/{id}/events", tags=["campaigns"])
def list_events(
    store: Store,
    id: str,  # noqa: A002
    after: str | None = None,
    latest: Limit | None = None,
    limit: Limit = 500,
) -> EventPage:
    """List lines of a campaign's log: the next after a cursor, or the latest."""
    return campaigns.event_page(store, id, after=after, latest=latest, limit=limit)


@routes.get(
    "/campaigns/{id}/stream",
    tags=["campaigns"],
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
def stream_events(
    request: Request,
    store: Store,
    id: str,  # noqa: A002
    after: str = "",
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Send a campaign's log as it grows: `line` events with cursors, and its `state`.

    A browser that reconnects names the last cursor it has by itself; nothing is lost.
    """
    cursor = read_cursor(last_event_id if last_event_id is not None else after)
    campaign = campaigns.newest_run(store, id)
    frames = EventStream(store, campaign.id, cursor, redact=redactor_of(request).in_json)
    return StreamingResponse(frames, media_type="text/event-stream")


@routes.get("/compare", tags=["campaigns"])
def compare(store: Store, left: str, right: str) -> Comparison:
    """Compare two campaigns task by task."""
    return tasks.comparison(store, left, right)


@routes.get("/tasks", tags=["tasks"])
def list_tasks(
    store: Store,
    order: TaskOrder = "gain",
    descending: bool = True,
    q: Words = "",
    offset: Offset = 0,
    limit: Limit = 100,
) -> TaskTable:
    """List the tasks of the whole store."""
    return campaigns.task_table(
        store, None, order=order, descending=descending, text=q, offset=offset, limit=limit
    )


@routes.get("/tasks/{id}", tags=["tasks"])
def read_task(store: Store, id: str) -> TaskPage:  # noqa: A002
    """Show a task: its graph, its champions and its first candidates."""
    return tasks.task_page(store, id)


@routes.get("/tasks/{id}/tree", tags=["tasks"])
def read_tree(
    store: Store,
    id: str,  # noqa: A002
    parent: str | None = None,
    offset: Offset = 0,
    limit: Limit = 200,
) -> Sequence[CandidateNode]:
    """List the candidates that descend from one; without one, those that descend from none."""
    return tasks.tree(store, id, parent, offset=offset, limit=limit)


@routes.get("/tasks/{id}/roofline", tags=["tasks"])
def read_roofline(store: Store, id: str) -> Roofline | None:  # noqa: A002
    """Place every candidate of a task over its chip's roofline."""
    return tasks.task_roofline(store, id)


@routes.get("/tasks/{id}/conversations", tags=["tasks"])
def list_conversations(store: Store, id: str) -> Sequence[Transcript]:  # noqa: A002
    """List what models said about a task, and the tools that they used."""
    return tasks.conversations(store, id)


@routes.get("/candidates", tags=["candidates"])
def list_candidates(
    store: Store,
    campaign: str | None = None,
    task: str | None = None,
    status: Status | None = None,
    q: Words = "",
    order: CandidateOrder = "at",
    descending: bool = True,
    offset: Offset = 0,
    limit: Limit = 100,
) -> TrialPage:
    """List what was tried, a page at a time, in any order."""
    runs = [run.id for run in campaigns.runs_of(store, campaign)] if campaign else None
    wanted = TrialFilter(
        run_ids=None if runs is None else tuple(runs),
        task_id=store.browse.task(task).id if task else None,
        status=status,
        text=q or None,
    )
    return trial_page(store, wanted, order=order, descending=descending, offset=offset, limit=limit)


@routes.get("/candidates/{id}", tags=["candidates"])
def read_candidate(store: Store, id: str, chip: str | None = None) -> CandidatePage:  # noqa: A002
    """Show everything about a candidate, as `kernelwright show --json` does."""
    return tasks.candidate_page(store, id, chip)


@routes.get("/candidates/{id}/source", tags=["candidates"])
def read_source(store: Store, id: str) -> Sequence[SourceText]:  # noqa: A002
    """Show a candidate's sources, cut into pieces by kind."""
    return tasks.sources(store, id)


@routes.get("/candidates/{id}/diff", tags=["candidates"])
def read_diff(store: Store, id: str, against: str | None = None) -> CandidateDiff:  # noqa: A002
    """Compare a candidate's sources with those of its parent, or of another candidate."""
    return tasks.candidate_difference(store, id, against)
