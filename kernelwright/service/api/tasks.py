"""Tasks and candidates as the API tells them: descent, sources, comparisons, conversations."""

from collections.abc import Mapping

from kernelwright.agents.roles.text.graph_text import node_table
from kernelwright.agents.session.transcript import Transcript
from kernelwright.campaign.history.ledger import conversations_about
from kernelwright.campaign.history.resuming import current, searches, shown_id
from kernelwright.campaign.history.run_state import RunState, state_of
from kernelwright.campaign.report.champion_list import CandidatePage, candidate_gain
from kernelwright.errors import InputError
from kernelwright.ir.graph import Graph
from kernelwright.service.api.campaigns import campaign_tasks, newest_run
from kernelwright.service.api.difference import difference
from kernelwright.service.api.highlight import sources_of
from kernelwright.service.api.recent import known_state
from kernelwright.service.api.record import (
    CandidateDiff,
    ComparedTask,
    Comparison,
    Roofline,
    SearchResult,
    SourceText,
    TaskPage,
)
from kernelwright.service.api.roofline import roofline
from kernelwright.store import KernelStore, TaskSummary
from kernelwright.store.browsing import CandidateNode, ListedTask, TrialFilter

_MOST_FOUND = 12
_MOST_SEARCHED = 100
"""Campaigns, the newest ones."""


def task_page(store: KernelStore, prefix: str) -> TaskPage:
    """Return a task with its graph, champions and first candidates."""
    task = store.browse.task(prefix)
    champions = store.browse.champions(task.id)
    first = store.browse.children(task.id)
    return TaskPage(
        task=task,
        champions=champions,
        graph_text=node_table(Graph.from_json(store.browse.graph_json(task.id))),
        first=first,
        path=_path(store, champions[0].candidate_id) if champions else (),
    )


def _path(store: KernelStore, candidate_id: str) -> tuple[str, ...]:
    detail = store.show(candidate_id)
    return tuple(c.id for c in reversed((detail.candidate, *detail.lineage)))


def tree(
    store: KernelStore, prefix: str, parent: str | None, *, offset: int, limit: int
) -> tuple[CandidateNode, ...]:
    """Return the candidates that descend from one of a task."""
    task = store.browse.task(prefix)
    return store.browse.children(task.id, parent, offset=offset, limit=limit)


def task_roofline(store: KernelStore, prefix: str) -> Roofline | None:
    """Return a task's candidates over their chip's roofline."""
    task = store.browse.task(prefix)
    champions = [c.candidate_id for c in store.browse.champions(task.id)]
    return roofline(store, task.id, champions)


def conversations(store: KernelStore, prefix: str) -> tuple[Transcript, ...]:
    """Return what models said about a task, as `show --conversation --json` does."""
    task = store.browse.task(prefix)
    return conversations_about(store, task.id)


def candidate_page(store: KernelStore, prefix: str, chip: str | None) -> CandidatePage:
    """Return everything about a candidate, as `show --json` does."""
    detail = store.show(prefix)
    return CandidatePage.of(detail, candidate_gain(detail, chip))


def sources(store: KernelStore, prefix: str) -> tuple[SourceText, ...]:
    """Return a candidate's sources, cut for highlighting."""
    return sources_of(store.show(prefix).program)


def candidate_difference(store: KernelStore, prefix: str, against: str | None) -> CandidateDiff:
    """Compare a candidate with another, by default with the one that it descends from.

    Raises:
        InputError: it descends from none that the store knows.
    """
    new = store.show(prefix)
    if against is None and not new.lineage:
        raise InputError(
            f"candidate {new.candidate.id[:8]} descends from none; name another to compare with."
        )
    return difference(store.show(against or new.lineage[0].id), new)


def comparison(store: KernelStore, left: str, right: str) -> Comparison:
    """Return two campaigns side by side, the tasks of both first."""
    before, after = _by_id(store, left), _by_id(store, right)
    both = [task for task in before if task in after]
    rest = [task for task in (*before, *after) if (task in before) != (task in after)]
    return Comparison(
        left=_state(store, left, before),
        right=_state(store, right, after),
        tasks=tuple(_compared(before.get(task), after.get(task)) for task in (*both, *rest)),
    )


def _state(store: KernelStore, prefix: str, rows: Mapping[str, ListedTask]) -> RunState:
    return state_of(store, newest_run(store, prefix), sum(row.right for row in rows.values()))


def _by_id(store: KernelStore, prefix: str) -> dict[str, ListedTask]:
    return {row.task.id: row for row in campaign_tasks(store, prefix)}


def _compared(left: ListedTask | None, right: ListedTask | None) -> ComparedTask:
    ratio = None
    if left and right and left.best and right.best and left.best.kind == right.best.kind:
        ratio = left.best.value / right.best.value if right.best.value else None
    return ComparedTask(task=_task(left, right), left=left, right=right, ratio=ratio)


def _task(left: ListedTask | None, right: ListedTask | None) -> TaskSummary:
    known = left or right
    assert known is not None
    return known.task


def search(store: KernelStore, text: str) -> SearchResult:
    """Find tasks, candidates and campaigns by a part of their name, idea or id."""
    wanted = text.strip()
    if not wanted:
        return SearchResult(tasks=(), candidates=(), campaigns=())
    candidates = store.browse.trials(TrialFilter(text=wanted), limit=_MOST_FOUND)
    campaigns = [
        known_state(store, run)
        for run in current(searches(store))[:_MOST_SEARCHED]
        if wanted.lower() in run.name.lower() or shown_id(run).startswith(wanted.lower())
    ]
    return SearchResult(
        tasks=store.browse.find_tasks(wanted, limit=_MOST_FOUND),
        candidates=candidates.items,
        campaigns=tuple(campaigns[:_MOST_FOUND]),
    )
