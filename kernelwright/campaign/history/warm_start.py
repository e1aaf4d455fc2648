"""What a store knows of a search's tasks when it begins: tuned schedules, and champions."""

from collections.abc import Iterable, Sequence

from pydantic import TypeAdapter

from kernelwright.agents.protocols import Proposal
from kernelwright.campaign.spec.spec_reading import is_same_search, search_spec_of
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.spec import SearchSpec
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Campaign, KernelStore

_RECALLED = "SchedulesRecalled"
"""The kind of the line in a run's log that holds with which schedules it began."""
_INCUMBENTS = "IncumbentsRecalled"
"""The kind of the line that holds which champions it went on from, by task."""
_MOST_CAMPAIGNS = 1000
_SCHEDULES = TypeAdapter(dict[str, tuple[str, ...]])
_CANDIDATES = TypeAdapter(dict[str, str])


def recall(
    store: KernelStore, campaign_id: str, searches: Sequence[TaskSearch], device: DeviceInfo
) -> None:
    """Give each task its champion, and the schedules that won where ops, inputs and chip agree.

    A run that takes up or replays another begins as that one did, whatever the store has learned
    since: it then proposes the same programs, whose verdicts the store knows. With the schedules
    every run of a search that ran before does; its models go on from the champion.
    """
    earlier = _Earlier(store, campaign_id)
    _recall_schedules(store, campaign_id, searches, device, [*earlier.runs, *earlier.alike])
    _recall_incumbents(store, campaign_id, searches, device, earlier.runs)


def _recall_schedules(
    store: KernelStore,
    campaign_id: str,
    searches: Sequence[TaskSearch],
    device: DeviceInfo,
    earlier: Iterable[str],
) -> None:
    known = _schedules_of(store, earlier)
    for search in searches:
        if known is None:
            search.tuned = store.tuned(
                search.task, signature=search.signature, device=device.name, chip=device.chip
            )
        else:
            search.tuned = known.get(search.task.fingerprint, ())
    kept = {search.task.fingerprint: search.tuned for search in searches if search.tuned}
    store.log(campaign_id, _RECALLED, _SCHEDULES.dump_json(kept).decode())


def _recall_incumbents(
    store: KernelStore,
    campaign_id: str,
    searches: Sequence[TaskSearch],
    device: DeviceInfo,
    earlier: Iterable[str],
) -> None:
    tasks = [search.task.fingerprint for search in searches]
    known = _incumbents_of(store, earlier)
    kept = _champions(store, tasks, device) if known is None else known
    for search in searches:
        if (candidate := kept.get(search.task.fingerprint)) is not None:
            search.incumbent = _proposal(store, candidate)
    store.log(campaign_id, _INCUMBENTS, _CANDIDATES.dump_json(kept).decode())


def _schedules_of(store: KernelStore, runs: Iterable[str]) -> dict[str, tuple[str, ...]] | None:
    """Return the schedules that the latest of some runs began with, None where none did."""
    for run in runs:
        for event in store.events(run, kinds=(_RECALLED,)):
            return _SCHEDULES.validate_json(event.body)
    return None


def _incumbents_of(store: KernelStore, runs: Iterable[str]) -> dict[str, str] | None:
    """Return which champions the latest of some runs went on from, None where none began."""
    for run in runs:
        lines = {e.kind: e.body for e in store.events(run, kinds=(_RECALLED, _INCUMBENTS))}
        if lines:
            return _CANDIDATES.validate_json(lines.get(_INCUMBENTS, "{}"))
    return None


def _champions(store: KernelStore, tasks: Sequence[str], device: DeviceInfo) -> dict[str, str]:
    """Return each task's champion on a device, else the nearest one of another."""
    elsewhere = store.from_elsewhere(tasks, device=device.name, chip=device.chip)
    found = {task: served[0].champion for task, served in elsewhere.items()}
    own = store.champions(tasks, device=device.name, chip=device.chip)
    found |= {champion.task.id: champion for champion in own if champion.freshness != "revoked"}
    return {task: champion.candidate_id for task, champion in found.items()}


def _proposal(store: KernelStore, candidate_id: str) -> Proposal:
    detail = store.show(candidate_id)
    known = detail.candidate
    return Proposal(
        program=detail.program,
        author=known.author,
        idea=known.idea,
        schedule=known.schedule,
        parent=known.parent_program_id,
    )


class _Earlier:
    """The runs as which a run may have to begin, those that matter most first."""

    def __init__(self, store: KernelStore, campaign_id: str) -> None:
        this = store.campaign(campaign_id)
        spec = search_spec_of(this)
        own = [run.id for run in store.runs(this.root_id)[::-1] if run.id != campaign_id]
        others = [
            other
            for other in (() if spec is None else store.campaigns(limit=_MOST_CAMPAIGNS))
            if other.id != campaign_id
        ]
        replayed = [o.id for o in others if spec is not None and _is_replayed(spec, o)]
        self.runs = (*own, *replayed)
        """Those that are taken up or replayed."""
        self.alike = tuple(
            other.id
            for other in others
            if spec is not None and other.name == this.name and is_same_search(spec, other)
        )
        """Those of the same search, whatever became of them."""


def _is_replayed(spec: SearchSpec, campaign: Campaign) -> bool:
    """Say whether a search replays a campaign, and so begins as that one did."""
    replays = (m.removeprefix("replay:") for m in spec.models if m.startswith("replay:"))
    return any(campaign.id.startswith(prefix) for prefix in replays)
