"""What a search's displays know of its tasks: one account, however it is shown."""

from collections import Counter
from dataclasses import dataclass, field

from kernelwright.campaign.event import (
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    FunctionPlanned,
    TaskEnded,
)
from kernelwright.evaluator.evaluation import Status
from kernelwright.store import Rank, TaskSummary


@dataclass
class TaskProgress:
    """What is known of one task."""

    summary: TaskSummary
    function: str
    verdicts: Counter[Status] = field(default_factory=Counter)
    reused: int = 0
    rank: Rank | None = None
    """Of what leads; None again where it did not survive confirmation."""
    leader: str = ""
    """The candidate that leads, or nothing."""
    waiting: int = 0
    is_confirmed: bool = False
    reason: str = ""

    @property
    def tried(self) -> int:
        """Return how many candidates have a verdict."""
        return self.verdicts.total()

    @property
    def correct(self) -> int:
        """Return how many of them are right."""
        return self.verdicts[Status.CORRECT] + self.verdicts[Status.PROMOTED]

    @property
    def failed(self) -> int:
        """Return how many of them are not."""
        return self.tried - self.correct


class SearchProgress:
    """Follows a search's events, task by task."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskProgress] = {}
        self._uses: Counter[str] = Counter()

    def take_in(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case FunctionPlanned():
                for task in event.tasks:
                    if task.id not in self.tasks:
                        self.tasks[task.id] = TaskProgress(task, event.function)
                        self._uses[task.name] += 1
            case CandidateProposed():
                self.tasks[event.task_id].waiting += 1
            case CandidateJudged():
                self._judged(self.tasks[event.task_id], event)
            case CandidateConfirmed():
                self._confirmed(self.tasks[event.task_id], event)
            case TaskEnded():
                self.tasks[event.task_id].reason = event.reason

    def label(self, task: TaskProgress) -> str:
        """Return a task's name, with its inputs where another task has the same name."""
        summary = task.summary
        is_alone = self._uses[summary.name] == 1
        return summary.name if is_alone else f"{summary.name} {summary.shapes}"

    @property
    def tried(self) -> int:
        """Return how many candidates of all tasks have a verdict."""
        return sum(task.tried for task in self.tasks.values())

    @property
    def reused(self) -> int:
        """Return how many of the verdicts were known before."""
        return sum(task.reused for task in self.tasks.values())

    def _judged(self, task: TaskProgress, event: CandidateJudged) -> None:
        task.waiting -= 1
        task.verdicts[event.status] += 1
        task.reused += event.reused
        if event.leads:
            task.rank, task.leader, task.is_confirmed = event.rank, event.candidate_id, False

    def _confirmed(self, task: TaskProgress, event: CandidateConfirmed) -> None:
        # Another one may lead by the time a confirmation ends.
        if task.leader in ("", event.candidate_id):
            task.rank, task.is_confirmed = event.rank, event.rank is not None
            task.leader = event.candidate_id if task.is_confirmed else ""
