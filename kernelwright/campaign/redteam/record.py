"""What a red team is asked, whom it attacks, and what it reports."""

from dataclasses import dataclass
from typing import Literal

from kernelwright.evaluator.attacks.redteam.disproof import Disproof
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

Result = Literal["refused", "accepted", "breach", "no verdict"]
"""`accepted` was not shown to be wrong; a `breach` was: the evaluator has a hole."""


@dataclass(frozen=True)
class Target:
    """An accepted program of a task, which the red team sees."""

    task: Task
    program: Program
    origin: str
    """Such as `champion 7f3a0c12` or `template`."""
    idea: str = ""


class Strike(Record):
    """One attack and what became of it."""

    task: str
    fingerprint: str
    author: str
    idea: str
    result: Result
    status: Status | None = None
    stage: Stage | None = None
    """The stage that refused it."""
    summary: str = ""
    program: Program
    disproof: Disproof | None = None
    case_kept: bool = False
    """True when later candidates of the task are judged on the inputs that showed the breach."""


class RedTeamReport(Record):
    """What a red team found."""

    campaign_id: str
    targets: int
    strikes: tuple[Strike, ...]
    refused_targets: tuple[str, ...] = ()
    """Accepted once, and refused by the evaluator of today: each with its verdict."""
    ended: str = ""
    """Why it ended before its last attack; empty where it did not."""
    dollars: float = 0.0
    assumed_dollars: float = 0.0
    """What calls without a bill are counted at, a part of that."""
    duration_s: float = 0.0

    def count(self, result: Result) -> int:
        """Return how many attacks ended like this."""
        return sum(strike.result == result for strike in self.strikes)

    @property
    def breaches(self) -> tuple[Strike, ...]:
        """The attacks that were accepted and shown to be wrong."""
        return tuple(strike for strike in self.strikes if strike.result == "breach")
