"""Whom the bandit asks for programs, and who learns from their verdicts."""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.agents.message import Spent
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.coder import Conclusion
from kernelwright.agents.roles.text.coder_prompt import NEW_IDEA, Start
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.step import Credited


class Improver(Protocol):
    """A coder that can start from a given program; `ModelCoder` is one."""

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        start: Start = NEW_IDEA,
    ) -> Sequence[Proposal]:
        """Propose new programs, from where `start` says."""

    def owns(self, task: Task, history: Sequence[Attempt], program_id: str) -> bool:
        """Say whether a program is its own author's to mend, and nobody else's."""

    def awaits(self, task: Task, model: str = "") -> frozenset[str]:
        """Return the programs whose verdicts their author, a model or any, was not told yet."""

    def speaker(self, task: Task, model: str) -> str:
        """Return who answered last where a model was asked: itself, or another in its stead."""

    def conclude(self, task: Task, history: Sequence[Attempt]) -> Sequence[Conclusion]:
        """Tell the last verdicts; return what their authors say is worth knowing."""

    def cap(self, task: Task) -> str:
        """Return which cap kept a conversation about a task from going on; empty where none did."""

    def spent(self, task: Task) -> Spent:
        """Return what all replies about a task took so far, whoever asked."""

    def left(self, task: Task, history: Sequence[Attempt]) -> Sequence[Proposal]:
        """Return the right drafts that lead a task and that their authors have not proposed."""

    def leave(self, task: Task, history: Sequence[Attempt], reason: str) -> None:
        """Take note that nobody is asked about a task any more, and why; waits for nobody."""


class Learner(Protocol):
    """Learns from verdicts what is worth telling; `Experience` is one."""

    def learn(self, proposal: Proposal, evaluation: Evaluation, *, leads: bool) -> None:
        """Take in a fresh verdict; `leads` says that the program is the best of its task."""

    def note(self, task: Task, device: DeviceInfo, text: str, programs: Sequence[str]) -> None:
        """Keep what the author of programs says is worth knowing about such tasks."""

    def credited(self, task: Task, credited: Credited) -> None:
        """Keep what a step cost and gained."""

    def earlier(self, task: Task) -> Sequence[Credited]:
        """Return what steps cost and gained in earlier campaigns, most telling last."""


class NoLearning:
    """Learns nothing."""

    def learn(self, proposal: Proposal, evaluation: Evaluation, *, leads: bool) -> None:
        """Let it pass."""

    def note(self, task: Task, device: DeviceInfo, text: str, programs: Sequence[str]) -> None:
        """Let it pass."""

    def credited(self, task: Task, credited: Credited) -> None:
        """Let it pass."""

    def earlier(self, task: Task) -> Sequence[Credited]:
        """Return nothing."""
        return ()
