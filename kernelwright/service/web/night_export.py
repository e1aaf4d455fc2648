"""Gathers what one file shows of a campaign: the answers that the live page would get."""

import base64
from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter

from kernelwright.campaign.history.resuming import shown_id
from kernelwright.metal.diagnostic import Record
from kernelwright.service.api import campaigns, plans, tasks
from kernelwright.service.api.record import TaskTable
from kernelwright.service.api.reply import written
from kernelwright.service.api.secret import Redactor, known_secrets
from kernelwright.service.web.bundle import single_file
from kernelwright.store import KernelStore
from kernelwright.store.browsing import CandidateNode, ListedTask, TrialFilter
from kernelwright.store.location import secrets_of

_DIGITS = 16
_MOST_TRIALS = 5_000
_MOST_TASKS = 200
_MOST_NODES = 400
"""Of a task's tree."""
_MOST_PAGES = 12
"""Candidates of a task that are held in full beside its champion's line: the best."""
_ADAPTER: TypeAdapter[object] = TypeAdapter(object)


def exported_page(store: KernelStore, prefix: str) -> str:
    """Return a campaign as one HTML file; of a large one the best candidates in full."""
    answers = dict(_answers(store, prefix))
    home = f"#/campaign/{_id(store, prefix)}"
    redactor = Redactor((*known_secrets(), *secrets_of(store.url)))
    told = written({"home": home, "answers": answers})
    return single_file(redactor.in_json(told))


def _id(store: KernelStore, prefix: str) -> str:
    return shown_id(store.campaign(prefix))[:_DIGITS]


def _answers(store: KernelStore, prefix: str) -> Iterator[tuple[str, object]]:
    id_ = _id(store, prefix)
    own = f"/campaigns/{id_}"
    runs = tuple(run.id for run in campaigns.runs_of(store, id_))
    rows = campaigns.campaign_tasks(store, id_)
    table = TaskTable(items=_by_gain(rows), total=len(rows))
    page = campaigns.campaign_page(store, id_)
    still = page.model_copy(update={"commands": (), "is_alive": False, "under_way": ()})
    yield own, _plain(still)
    yield (
        f"{own}/events?latest=200",
        _plain(campaigns.event_page(store, id_, after=None, latest=200, limit=200)),
    )
    yield f"{own}/tasks", _plain(table)
    yield "/tasks", _plain(table)
    trials = store.browse.trials(TrialFilter(run_ids=runs), limit=_MOST_TRIALS)
    yield "/candidates", _plain(trials)
    yield f"{own}/spend", _plain(campaigns.spend_curve(store, id_))
    planned = plans.planned(store, id_)
    yield f"{own}/plans", _plain(planned)
    for number, plan in enumerate(planned):
        if plan.has_graph:
            drawing = plans.plan_svg(store, id_, number)
            yield f"{own}/plans/{number}.svg", base64.b64encode(drawing.encode()).decode()
    for row in table.items[:_MOST_TASKS]:
        yield from _task_answers(store, row)


def _by_gain(rows: Sequence[ListedTask]) -> tuple[ListedTask, ...]:
    return tuple(sorted(rows, key=lambda row: -(row.speedup.ratio if row.speedup else 0.0)))


def _task_answers(store: KernelStore, row: ListedTask) -> Iterator[tuple[str, object]]:
    own = f"/tasks/{row.task.id[:_DIGITS]}"
    page = tasks.task_page(store, row.task.id)
    yield own, _plain(page)
    yield f"{own}/roofline", _plain(tasks.task_roofline(store, row.task.id))
    yield f"{own}/conversations", _plain(tasks.conversations(store, row.task.id))
    nodes = list(page.first)
    for node in nodes:
        if node.children and len(nodes) < _MOST_NODES:
            found = tasks.tree(store, row.task.id, node.id, offset=0, limit=200)
            yield f"{own}/tree?parent={node.id}&offset=0&limit=200", _plain(found)
            nodes += found
    for id_ in _shown_in_full(nodes, page.path):
        yield from _candidate_answers(store, id_)


def _shown_in_full(nodes: Sequence[CandidateNode], path: Sequence[str]) -> list[str]:
    """Choose the champion's line, the best, and from whom those descend."""
    ranked = sorted((n for n in nodes if n.rank), key=lambda n: n.rank.value if n.rank else 0.0)
    failed = [n for n in nodes if n.rank is None]
    best = [*ranked[:_MOST_PAGES], *failed[: _MOST_PAGES // 2]]
    chosen = [*path, *(n.id for n in best), *(n.parent_id for n in best if n.parent_id)]
    known = {node.id for node in nodes} | set(path)
    return [id_ for id_ in dict.fromkeys(chosen) if id_ in known]


def _candidate_answers(store: KernelStore, id_: str) -> Iterator[tuple[str, object]]:
    own = f"/candidates/{id_[:_DIGITS]}"
    page = tasks.candidate_page(store, id_, None)
    yield own, _plain(page)
    yield f"{own}/source", _plain(tasks.sources(store, id_))
    if page.lineage:
        yield f"{own}/diff", _plain(tasks.candidate_difference(store, id_, None))


def _plain(found: Record | Sequence[Record] | None) -> object:
    """Return a record as the API's JSON tells it."""
    return _ADAPTER.dump_python(found, mode="json")
