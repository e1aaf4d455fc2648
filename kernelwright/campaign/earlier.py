"""What the runs that a search takes over from have used up, and what was in flight at their end."""

from dataclasses import dataclass

from kernelwright.campaign.ledger import abandoned
from kernelwright.campaign.pausing import paused_s
from kernelwright.store import Campaign, KernelStore

_MOST_CAMPAIGNS = 1000
_MOST_TRIALS = 1_000_000


@dataclass(frozen=True)
class Earlier:
    """What earlier runs of the same search took and left behind."""

    seconds: float = 0.0
    evaluations: int = 0
    in_flight: frozenset[str] = frozenset()
    """Candidates whose evaluation began and never ended."""


def earlier_runs(store: KernelStore, campaign_id: str) -> Earlier:
    """Add up the runs of the same search since it last finished."""
    runs = abandoned(store, campaign_id)
    campaigns = {c.id: c for c in store.campaigns(limit=_MOST_CAMPAIGNS)}
    trials = {run: store.history(campaign=run, limit=_MOST_TRIALS)[::-1] for run in runs}
    open_: set[str] = set()
    for run in runs:
        for trial in trials[run]:
            if trial.state in ("evaluating", "confirming"):
                open_.add(trial.candidate_id)
            elif trial.state == "done":
                open_.discard(trial.candidate_id)
    return Earlier(
        seconds=sum(lasted_s(store, campaigns[run]) for run in runs),
        evaluations=sum(
            trial.state != "intended" and not trial.reused for run in runs for trial in trials[run]
        ),
        in_flight=frozenset(open_),
    )


def lasted_s(store: KernelStore, campaign: Campaign) -> float:
    """Return how long a run went on, to its last sign of life where it has no end.

    The time that it was asked to hold still does not count.
    """
    last = campaign.ended_at or campaign.heartbeat_at
    if campaign.ended_at is None and (newest := store.history(campaign=campaign.id, limit=1)):
        last = max(last, newest[0].at)
    held = paused_s(store.events(campaign.id), last)
    return max((last - campaign.started_at).total_seconds() - held, 0.0)
