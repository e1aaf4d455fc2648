"""The records that a reader who turns pages gets."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.diagnostic import Record
from kernelwright.store.model_call import Spend
from kernelwright.store.record import ChampionSpeedup, Freshness, HistoryEntry, Rank, TaskSummary

CandidateOrder = Literal["at", "rank", "status", "author", "idea", "task"]
"""What candidates may be ordered by."""


class ListedTask(Record):
    """A task with what was tried for it and what came of that: a row of the task table."""

    task: TaskSummary
    tried: int
    """Candidates with a verdict."""
    right: int
    """Candidates with a verdict that is correct."""
    best: Rank | None
    """Of the correct candidates; measured before predicted."""
    champion_id: str | None = None
    device: str = ""
    chip: str = ""
    freshness: Freshness | None = None
    speedup: ChampionSpeedup | None = None
    """The champion's over MLX; None without a champion, or where nothing was compared."""
    spend: Spend
    """What models were paid for it."""


class TrialPage(Record):
    """Some of the trials that were asked for, and how many there are."""

    items: tuple[HistoryEntry, ...]
    total: int


class CandidateNode(Record):
    """A candidate in its task's tree of descent."""

    id: str
    parent_id: str | None
    author: str
    idea: str
    status: Status | None
    """Of its newest verdict; None without one."""
    rank: Rank | None
    created_at: datetime
    children: int
    is_champion: bool


class RunTotals(Record):
    """What the runs of a campaign did, added up."""

    tried: int
    ended: int
    """Trials with a verdict, those that the store knew among them."""
    evaluated: int
    under_way: int
    """Candidates that are evaluated or confirmed now, or were when a run died."""
    waiting: int
    spend: Spend


class TaskVerdicts(Record):
    """What some runs found for a task; each candidate counts by its last verdict."""

    task: TaskSummary
    tried: int
    """Candidates whose last turn ended."""
    verdicts: dict[Status, int]
    best: Rank | None
    """Of the right ones."""


class Improvement(Record):
    """A right candidate that was better than all of its task before it."""

    task_id: str
    run_id: str
    at: datetime
    rank: Rank


class FailedVerdicts(Record):
    """Candidates that failed in one way, and the one that teaches most."""

    status: Status
    count: int
    example: HistoryEntry
    was_mended: bool
    """True when a right candidate descends from the example."""


class ModelSpend(Record):
    """What one model took for one task, or for none."""

    task_id: str | None
    model: str
    spend: Spend


class UnusableReplies(Record):
    """How often a model's reply was none, or of no use, for one cause."""

    model: str
    """`provider:model`."""
    cause: str
    """`refused`, `cut off`, `no valid record`, or what came instead of a reply: `empty reply`."""
    count: int


class ModelPayment(Record):
    """One call to a model that was paid, or failed."""

    at: datetime
    model: str
    role: str
    task_id: str | None
    tokens: int
    dollars: float
    """At most."""
    known_dollars: float
    """The same where the bill is known, else nothing."""
    is_failed: bool


class FoundTask(Record):
    """A task that a search in the store found, and why."""

    task: TaskSummary
    champion_id: str | None


@dataclass(frozen=True)
class StoredEvaluation:
    """An evaluation as it is stored, unread: its JSON may be long."""

    id: str
    candidate_id: str
    status: str
    author: str
    idea: str
    body: str


@dataclass(frozen=True)
class TrialFilter:
    """Which trials are asked for; what is None does not matter."""

    run_ids: tuple[str, ...] | None = None
    task_id: str | None = None
    status: Status | None = None
    text: str | None = None
    """A part of the idea or of the author."""
    is_under_way: bool = False
    """Only those that are evaluated or confirmed."""
