"""What a campaign leaves in the morning, gathered from the store as one record."""

from typing import Literal

from kernelwright.campaign.event import FunctionRefused
from kernelwright.campaign.report.spend import Spending
from kernelwright.campaign.report.step_gain import StepLine
from kernelwright.campaign.report.wording import in_causes, in_money, in_tokens
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain
from kernelwright.metal.diagnostic import Record
from kernelwright.store import (
    Champion,
    Environment,
    Rank,
    TaskSummary,
)
from kernelwright.store.browsing import UnusableReplies


class Point(Record):
    """The best of a task from a moment on."""

    seconds: float
    """Of running time; nights that were interrupted are joined."""
    dollars: float
    """What models had been paid by then, for all tasks."""
    rank: Rank


class TaskResult(Record):
    """What became of one task."""

    task: TaskSummary
    tried: int
    right: int
    champion: Champion | None
    """The best candidate; it gains nothing where `gain` does not beat MLX."""
    gain: Gain | None
    predicted: Gain | None
    points: tuple[Point, ...]

    @property
    def beats_mlx(self) -> bool:
        """True where there is a champion to take."""
        return self.gain is not None and self.gain.beats_mlx


class FunctionResult(Record):
    """What became of one function as a whole."""

    function: str
    inputs: str
    task_ids: tuple[str, ...]
    """One for each region, in graph order."""
    gain: Gain | None
    """None where no region has a champion, or an older log does not say what MLX does."""


class Failure(Record):
    """Verdicts of one kind, and the example that teaches most."""

    status: Status
    count: int
    example_id: str
    task: str
    idea: str
    summary: str
    was_repaired: bool


class Quarantined(Record):
    """A candidate that was in flight when a run died."""

    candidate_id: str
    task: str
    outcome: str


class CampaignReport(Record):
    """The whole report."""

    campaign_id: str
    name: str
    kind: Literal["campaign", "search"]
    """A search goes on by its own command, a campaign by `campaign resume`."""
    state: str
    reason: str
    runs: int
    seconds: float
    environment: Environment
    functions: tuple[FunctionResult, ...]
    tasks: tuple[TaskResult, ...]
    failures: tuple[Failure, ...]
    quarantined: tuple[Quarantined, ...]
    spending: tuple[Spending, ...]
    steps: tuple[StepLine, ...]
    """What the bandit knows, with which the next search of such tasks begins."""
    refused: tuple[FunctionRefused, ...]
    unusable: tuple[UnusableReplies, ...] = ()
    """Replies of models that were of no use, by cause."""
    remarks: tuple[str, ...] = ()
    """What was told of models while they were asked: who refused, answered instead, or ended."""

    @property
    def won(self) -> tuple[TaskResult, ...]:
        """Tasks with a champion that gains, the greatest gain first."""
        return tuple(t for t in self.ranked if t.beats_mlx)

    @property
    def ranked(self) -> tuple[TaskResult, ...]:
        """All tasks in the order of every table and plot: by gain, those without one last."""
        return tuple(sorted(self.tasks, key=lambda t: -t.gain.ratio if t.gain else 0.0))

    @property
    def even(self) -> tuple[TaskResult, ...]:
        """Tasks that ended with MLX's time below that of the best kernel."""
        return tuple(t for t in self.ranked if t.gain and not t.beats_mlx and not self.goes_on)

    @property
    def open(self) -> tuple[TaskResult, ...]:
        """Tasks of which no verdict can be given: none is won yet, or no figure is known."""
        decided = {t.task.id for t in (*self.won, *self.even)}
        return tuple(t for t in self.tasks if t.task.id not in decided)

    @property
    def goes_on(self) -> bool:
        """True while the run may still find something."""
        return self.state in ("running", "paused")

    def stays_with_mlx(self, function: FunctionResult) -> str:
        """Say why MLX runs a function that gains nothing."""
        if not function.task_ids:
            return "with MLX"
        return "open" if self.goes_on or function.gain is None else "MLX is best here"

    @property
    def causes(self) -> str:
        """The replies of models that were of no use, as people read them."""
        return in_causes(self.unusable)

    @property
    def dollars(self) -> float:
        """What models were paid, at most."""
        return sum(row.dollars for row in self.spending)

    @property
    def paid(self) -> str:
        """The same as people read it."""
        return in_money(self._known_dollars, self.dollars, self._unbilled_calls)

    @property
    def tokens_read_and_written(self) -> str:
        """The tokens of all calls as people read them."""
        known = sum(row.known_tokens for row in self.spending)
        return in_tokens(known, sum(row.tokens for row in self.spending)).rstrip(",")

    @property
    def _unbilled_calls(self) -> int:
        return sum(row.unbilled_calls for row in self.spending)

    @property
    def _known_dollars(self) -> float:
        return sum(row.known_dollars for row in self.spending)

    @property
    def tried(self) -> int:
        """Candidates over all tasks."""
        return sum(task.tried for task in self.tasks)
