"""What a search says while it runs: frozen records, in the order in which things happen."""

from datetime import datetime

from kernelwright.campaign.planning.function_work import FunctionWork
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.store import Rank, TaskSummary


class CampaignBegan(Record):
    """The store knows the campaign; nothing has been tried."""

    campaign_id: str
    device: DeviceInfo
    store: str
    functions: tuple[str, ...]
    shown_id: str = ""
    """By which people know it: that of its first run; empty in older logs."""
    goes_on_from: datetime | None = None
    """When its run before this one began; None where this is the first."""
    changed: tuple[str, ...] = ()
    """Functions whose text computes something else than in that run."""

    @property
    def earlier_words(self) -> str:
        """Say from which run it goes on, and what changed since; nothing where it is the first."""
        if self.goes_on_from is None:
            return ""
        told = f"goes on from its run of {self.goes_on_from.astimezone():%Y-%m-%d %H:%M}"
        if not self.changed:
            return told
        is_one = len(self.changed) == 1
        return (
            f"{told}\n{', '.join(self.changed)} changed since: {'it is' if is_one else 'they are'} "
            f"searched as {'it is' if is_one else 'they are'} now, and the store keeps what was "
            "found before"
        )


class LeftOperation(Record):
    """An op that stays with MLX, and why."""

    op: str
    reason: str
    count: int = 1


class FunctionPlanned(Record):
    """A function was captured and cut into tasks."""

    function: str
    inputs: str
    nodes: int
    tasks: tuple[TaskSummary, ...]
    """One for each region, in graph order; equal regions share a task."""
    left: tuple[LeftOperation, ...]
    author: str
    place: str = ""
    """The file and name, by which the function is found again; empty in older logs."""
    written: tuple[str, ...] = ()
    """The inputs as they are typed; empty where they have no text, and in older logs."""
    work: FunctionWork | None = None
    """What MLX does for one call; None in older logs."""


class PlanDrawn(Record):
    """The graph of a function that was planned, and its cut, so that both can be drawn again."""

    function: str
    inputs: str
    graph: str
    """As JSON."""
    regions: tuple[tuple[int, ...], ...]
    """The nodes of each region, in the order of the plan's tasks."""


class FunctionRefused(Record):
    """A function cannot be captured; the others go on."""

    function: str
    reason: str


class CandidateProposed(Record):
    """A program is about to be evaluated; the store holds the intent."""

    task_id: str
    candidate_id: str
    author: str
    idea: str
    repairs: bool
    """True when it corrects an earlier program."""


class CandidateJudged(Record):
    """A verdict came back, or was known already."""

    task_id: str
    candidate_id: str
    status: Status
    summary: str
    rank: Rank | None
    reused: bool
    leads: bool
    """True when it is the best of its task so far."""


class CandidateConfirmed(Record):
    """The leader of a task met the hidden gate and a fresh process."""

    task_id: str
    candidate_id: str
    status: Status
    summary: str
    rank: Rank | None
    """None when it did not survive."""
    reused: bool


class ModelRemarked(Record):
    """A model refused, was away or gave nothing usable; the search goes on."""

    sentence: str
    is_handover: bool = False
    """True where another model answered instead."""


class TaskEnded(Record):
    """Nothing more is tried for a task."""

    task_id: str
    reason: str
    gain: Gain | None = None
    """Of the best right candidate, where it was timed and MLX is faster; a champion has its own."""


class CampaignHeldUp(Record):
    """The search waits: a disk is full, a device fails, the machine is hot."""

    reason: str
    seconds: float
    """Until the next try."""


class CampaignEnded(Record):
    """The search is over and everything that it found is in the store."""

    campaign_id: str
    reason: str
    interrupted: bool
    """True when it leaves work behind, which the same search takes up later."""
    parked: bool = False
    """True when the device failed; other devices may go on."""
    capped: bool = False
    """True when a cap ended it, with work left for a larger one."""
    cap: str = ""
    """Which cap kept models from going on, or ended it; empty where none did."""

    @property
    def early_words(self) -> str:
        """Say what kept it from all that it might have tried, and how it goes on; else nothing."""
        if self.interrupted:
            return f"{self.reason}; the same command goes on from here"
        if self.capped:
            return f"{self.reason}; with a larger cap the same command goes on from here"
        return self.reason if self.cap else ""


Event = (
    CampaignBegan
    | FunctionPlanned
    | FunctionRefused
    | CandidateProposed
    | CandidateJudged
    | CandidateConfirmed
    | ModelRemarked
    | TaskEnded
    | CampaignHeldUp
    | CampaignEnded
)
