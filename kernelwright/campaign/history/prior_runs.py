"""What the runs that a search takes over from have used up, and what was in flight at their end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.campaign.event import CampaignEnded
from kernelwright.campaign.history.heartbeat import BEAT_S
from kernelwright.campaign.history.ledger import abandoned
from kernelwright.campaign.history.pausing import GO_ON, PAUSE, paused_s
from kernelwright.store import Campaign, KernelStore

_AT_WORK = ("evaluating", "confirming")


@dataclass(frozen=True)
class Earlier:
    """What earlier runs of the same search took and left behind."""

    seconds: float = 0.0
    evaluations: int = 0
    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Candidates whose evaluation began and never ended, and how many runs died of that."""


def earlier_runs(store: KernelStore, campaign_id: str) -> Earlier:
    """Add up the runs of the same search since it last finished."""
    runs = abandoned(store, campaign_id)
    return Earlier(
        seconds=sum(lasted_s(store, store.campaign(run)) for run in runs),
        evaluations=store.browse.evaluations_begun(runs),
        in_flight=_in_flight(store, runs),
    )


def _in_flight(store: KernelStore, runs: Sequence[str]) -> dict[str, int]:
    """Count, for each candidate that was in flight and has no verdict since, the runs that died."""
    began = {t.candidate_id for t in store.browse.open_trials(runs) if t.state in _AT_WORK}
    turns = store.browse.turns_of(runs, began)
    open_: dict[str, int] = {}
    for run in runs:
        died = int(not store.events(run, kinds=(CampaignEnded.__name__,)))
        for turn in turns:
            if turn.campaign_id != run:
                continue
            if turn.state in _AT_WORK:
                open_[turn.candidate_id] = open_.get(turn.candidate_id, 0) + died
            elif turn.state == "done":
                open_.pop(turn.candidate_id, None)
    return open_


def lasted_s(store: KernelStore, campaign: Campaign) -> float:
    """Return how long a run went on, to its last sign of life where it has no end.

    The time that it was asked to hold still does not count.
    """
    if campaign.elapsed_s:
        # A run that died went on for less than a beat after its last sign of life.
        has_ended = bool(store.events(campaign.id, kinds=(CampaignEnded.__name__,)))
        is_known = has_ended or campaign.state == "running"
        return campaign.elapsed_s if is_known else campaign.elapsed_s + BEAT_S
    last = campaign.ended_at or campaign.heartbeat_at
    if campaign.ended_at is None and (newest := store.history(campaign=campaign.id, limit=1)):
        last = max(last, newest[0].at)
    held = paused_s(store.events(campaign.id, kinds=(PAUSE, GO_ON)), last)
    return max((last - campaign.started_at).total_seconds() - held, 0.0)
