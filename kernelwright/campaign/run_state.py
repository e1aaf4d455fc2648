"""How a run of a campaign stands, in one line."""

from kernelwright.campaign.earlier import lasted_s
from kernelwright.campaign.pausing import is_paused
from kernelwright.campaign.resuming import is_alive
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.diagnostic import Record
from kernelwright.store import Campaign, KernelStore

RIGHT = (Status.CORRECT, Status.PROMOTED)
_MOST_TRIALS = 1_000_000


class RunState(Record):
    """One line of `campaign status`."""

    id: str
    name: str
    device: str
    state: str
    """As in the store; `paused`, `dead` when its process is gone, `taken up` when resumed."""
    tried: int
    evaluated: int
    correct: int
    seconds: float
    dollars: float


def state_of(store: KernelStore, run: Campaign, *, is_newest: bool = True) -> RunState:
    """Read how a run stands; one that is not the newest of its campaign was taken up."""
    trials = store.history(campaign=run.id, limit=_MOST_TRIALS)
    calls = store.dialogue.calls(run.id)
    return RunState(
        id=run.id,
        name=run.name,
        device=run.environment.device.name,
        state=word_for(store, run, is_newest=is_newest),
        tried=len(trials),
        evaluated=sum(t.state == "done" and not t.reused for t in trials),
        correct=sum(t.status in RIGHT for t in trials),
        seconds=lasted_s(store, run),
        dollars=sum(c.outcome.cost_microdollars for c in calls if c.outcome) / 1_000_000,
    )


def word_for(store: KernelStore, run: Campaign, *, is_newest: bool = True) -> str:
    """Say how a run stands in a word or two."""
    if run.state == "finished":
        return "finished"
    if not is_newest:
        return "taken up"
    if run.state != "running":
        return run.state
    if not is_alive(run):
        return "dead"
    return "paused" if is_paused(store.events(run.id)) else "running"
