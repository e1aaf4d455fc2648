"""How a run of a campaign stands, in one line."""

from datetime import datetime
from typing import Literal

from kernelwright.campaign.event import CampaignEnded
from kernelwright.campaign.history.pausing import GO_ON, PAUSE, is_paused
from kernelwright.campaign.history.prior_runs import lasted_s
from kernelwright.campaign.history.resuming import is_alive, shown_id
from kernelwright.campaign.spec.spec_reading import campaign_spec_of
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.diagnostic import Record
from kernelwright.store import Campaign, KernelStore

RIGHT = (Status.CORRECT, Status.PROMOTED)


class RunState(Record):
    """One line of `campaign status`."""

    id: str
    """Of the campaign, which later runs keep."""
    kind: Literal["campaign", "search"]
    """Whether it has a file of its own and goes on by `campaign resume`."""
    name: str
    device: str
    state: str
    """As in the store; `paused`, or `dead` when its process is gone."""
    tried: int
    evaluated: int
    correct: int
    started_at: datetime
    """When its first run began."""
    ended_at: datetime | None = None
    """When its newest run ended; None while it goes on, and where its process was killed."""
    seconds: float
    """How long its runs went on, pauses and what lies between them left out."""
    dollars: float
    """At most, as caps count: a call whose reply never came whole may cost its worst case."""
    known_dollars: float
    """Of whole replies alone."""
    reason: str = ""
    """Why it ended, as the report says it; empty while it goes on."""


def state_of(store: KernelStore, run: Campaign, right: int | None = None) -> RunState:
    """Read how a campaign stands by its newest run, with what its earlier ones did.

    `right` is the number of right candidates, where it is known already.
    """
    runs = store.runs(shown_id(run)) or (run,)
    ids = [r.id for r in runs]
    totals = store.browse.totals(ids)
    return RunState(
        id=shown_id(run),
        kind="campaign" if campaign_spec_of(run) else "search",
        name=run.name,
        device=run.environment.device.name,
        state=word_for(store, run),
        tried=totals.tried,
        evaluated=totals.evaluated,
        correct=store.browse.right_candidates(ids) if right is None else right,
        started_at=min(r.started_at for r in runs),
        ended_at=run.ended_at,
        seconds=sum(lasted_s(store, r) for r in runs),
        dollars=totals.spend.dollars,
        known_dollars=totals.spend.known_dollars,
        reason=reason_of(store, run),
    )


def reason_of(store: KernelStore, run: Campaign) -> str:
    """Return why a run ended, empty where it goes on or its process was killed."""
    ended = store.events(run.id, kinds=(CampaignEnded.__name__,))
    return ended[-1].read(CampaignEnded).reason if ended else ""


def not_running(run: Campaign) -> str:
    """Say that a run which is over or dead cannot be asked, and what to do instead."""
    short_id = shown_id(run)[:8]
    said = f"campaign {short_id} ({run.name}) does not run"
    if run.state == "finished":
        return f"{said}: it is finished; read what it found with: kernelwright report {short_id}"
    word = "its process is gone" if run.state == "running" else f"it is {run.state}"
    if campaign_spec_of(run) is None:
        return f"{said}: {word}, and it is a search; call the same kernelwright search to go on."
    return f"{said}: {word}; take it up with: kernelwright campaign resume {short_id}"


def word_for(store: KernelStore, run: Campaign) -> str:
    """Say how a run stands in a word or two."""
    if run.state == "finished":
        return "finished"
    if run.state != "running":
        return run.state
    if not is_alive(run):
        return "dead"
    return "paused" if is_paused(store.events(run.id, kinds=(PAUSE, GO_ON))) else "running"
