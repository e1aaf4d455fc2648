"""The records that only the API has; all others are those that the command line prints."""

from datetime import datetime
from typing import Literal

from kernelwright.campaign.event import FunctionPlanned
from kernelwright.campaign.history.run_state import RunState
from kernelwright.campaign.report.live_status import Limits, UnderWay
from kernelwright.metal.diagnostic import Record
from kernelwright.store import (
    Champion,
    Environment,
    HistoryEntry,
    LoggedEvent,
    TaskSummary,
)
from kernelwright.store.browsing import CandidateNode, FoundTask, ListedTask, ModelPayment

TaskOrder = Literal["gain", "name", "tried", "right", "best", "spent"]


class TaskTable(Record):
    """Some rows of a task table, and how many there are."""

    items: tuple[ListedTask, ...]
    total: int


class RunPart(Record):
    """One run of a campaign; runs continue one another."""

    id: str
    state: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float


class PlannedFunction(Record):
    """How a function was cut."""

    plan: FunctionPlanned
    has_graph: bool
    """Whether the log holds its graph, so that it can be drawn."""


class CampaignPage(Record):
    """How a campaign stands, and what may be done with it."""

    state: RunState
    environment: Environment
    runs: tuple[RunPart, ...]
    limits: Limits
    reason: str
    """Why it ended; empty while it goes on."""
    under_way: tuple[UnderWay, ...]
    waiting: int
    is_alive: bool
    commands: tuple[Literal["pause", "resume", "stop"], ...]
    """What the page may ask of it now."""
    advice: str
    """The command that goes on with it, where none of the page's can."""
    cursor: str
    """Where the stream of its events goes on from this answer."""


class EventPage(Record):
    """Lines of a campaign's log, oldest first, and where to go on."""

    items: tuple[LoggedEvent, ...]
    cursor: str
    total: int


class TaskPage(Record):
    """A task with its reference graph as text."""

    task: TaskSummary
    champions: tuple[Champion, ...]
    graph_text: str
    first: tuple[CandidateNode, ...]
    """The candidates that descend from no other."""
    path: tuple[str, ...]
    """Ids from a first candidate to the champion, which the tree opens at."""


class Span(Record):
    """A piece of a line of source, with its kind for highlighting; empty for plain text."""

    kind: str
    text: str


SourceLine = tuple[Span, ...]


class SourceText(Record):
    """A kernel's own text, ready to be shown."""

    kernel: str
    part: Literal["launch", "header", "source"]
    lines: tuple[SourceLine, ...]


class DiffRow(Record):
    """A line of a difference between two sources; numbers count from 1, None where it is not."""

    change: Literal["same", "removed", "added"]
    old: int | None
    new: int | None
    line: SourceLine


class SourceDiff(Record):
    """How a kernel's text differs from that of the candidate that it descends from."""

    kernel: str
    part: Literal["launch", "header", "source"]
    rows: tuple[DiffRow, ...]
    added: int
    removed: int


class CandidateDiff(Record):
    """All differences between two candidates."""

    old_id: str
    new_id: str
    parts: tuple[SourceDiff, ...]


class RooflinePoint(Record):
    """One candidate over a chip's roofline."""

    candidate_id: str
    author: str
    idea: str
    intensity: float
    """Operations for each byte to and from memory."""
    gflops: float
    """Reached, or predicted to be."""
    microseconds: float
    kind: Literal["measured", "predicted"]
    is_champion: bool


class Roofline(Record):
    """What a chip allows and what every candidate of a task reaches."""

    chip: str
    peak_gflops: float
    bandwidth_gb_s: float
    points: tuple[RooflinePoint, ...]
    total: int
    """Candidates with a time; more than there are points where only the best are drawn."""


class SpendCurve(Record):
    """What a campaign paid, in the order in which it did."""

    payments: tuple[ModelPayment, ...]
    started_at: datetime
    ended_at: datetime
    dollars: float
    """At most: a call whose reply never came whole counts at its worst."""
    known_dollars: float
    tokens: int


class ComparedTask(Record):
    """One task in two campaigns."""

    task: TaskSummary
    left: ListedTask | None
    right: ListedTask | None
    ratio: float | None
    """The left's best over the right's: above 1 the right one is faster. None where kinds of
    figures differ or one has none."""


class Comparison(Record):
    """Two campaigns side by side."""

    left: RunState
    right: RunState
    tasks: tuple[ComparedTask, ...]


class SearchResult(Record):
    """What fits a text, of each kind."""

    tasks: tuple[FoundTask, ...]
    candidates: tuple[HistoryEntry, ...]
    campaigns: tuple[RunState, ...]


class Asked(Record):
    """What was asked of a campaign."""

    sentence: str


class Problem(Record):
    """Why a request has no answer, in one sentence."""

    error: str
