"""What earlier searches tuned: the schedules with which this one begins each task."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from kernelwright.campaign.spec.spec_reading import is_same_search, search_spec_of
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.spec import SearchSpec
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Campaign, KernelStore

_RECALLED = "SchedulesRecalled"
"""The kind of the line in a run's log that holds with which schedules it began."""
_MOST_CAMPAIGNS = 1000
_SCHEDULES = TypeAdapter(dict[str, tuple[str, ...]])


def recall(
    store: KernelStore, campaign_id: str, searches: Sequence[TaskSearch], device: DeviceInfo
) -> None:
    """Give each task the schedules that won where ops, inputs and chip were the same.

    A run of a search that ran before begins as that one did, whatever it has learned since: it
    then proposes the same programs, whose verdicts the store knows.
    """
    told = _told(store, campaign_id)
    for search in searches:
        if told is None:
            search.tuned = store.tuned(
                search.task, signature=search.signature, device=device.name, chip=device.chip
            )
        else:
            search.tuned = told.get(search.task.fingerprint, ())
    kept = {search.task.fingerprint: search.tuned for search in searches if search.tuned}
    store.log(campaign_id, _RECALLED, _SCHEDULES.dump_json(kept).decode())


def _is_replayed(spec: SearchSpec, campaign: Campaign) -> bool:
    """Say whether a search replays a campaign, and so begins as that one did."""
    replays = (m.removeprefix("replay:") for m in spec.models if m.startswith("replay:"))
    return any(campaign.id.startswith(prefix) for prefix in replays)


def _told(store: KernelStore, campaign_id: str) -> dict[str, tuple[str, ...]] | None:
    """Return what the latest run of the same search began with, None where there was none."""
    this = store.campaign(campaign_id)
    spec = search_spec_of(this)
    own = store.runs(this.root_id)[::-1]
    others = () if spec is None else store.campaigns(limit=_MOST_CAMPAIGNS)
    alike = (
        other
        for other in others
        if spec is not None and other.name == this.name and is_same_search(spec, other)
    )
    replayed = () if spec is None else (c for c in others if _is_replayed(spec, c))
    for other in (*own, *replayed, *alike):
        if other.id != campaign_id:
            for event in store.events(other.id, kinds=(_RECALLED,)):
                return _SCHEDULES.validate_json(event.body)
    return None
