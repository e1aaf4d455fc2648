"""A search's events as an MCP client's progress: how many candidates, and what became of each."""

from types import TracebackType
from typing import Self

from kernelwright.campaign.event import (
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    FunctionPlanned,
    ModelRemarked,
)
from kernelwright.service.mcp.work import Handle


class ProgressToClient:
    """Follows a search and tells a client each step."""

    def __init__(self, handle: Handle, candidates_per_task: int) -> None:
        self._handle = handle
        self._per_task = candidates_per_task
        self._tasks = 0
        self._judged = 0
        self._names: dict[str, str] = {}

    def show(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, FunctionPlanned):
            self._tasks += len(event.tasks)
            self._names |= {task.id: task.name for task in event.tasks}
            self._tell(f"{event.function}: {len(event.tasks)} to search")
        elif isinstance(event, CandidateProposed):
            self._tell(f"{self._name(event.task_id)}: {event.idea}")
        elif isinstance(event, CandidateJudged):
            self._judged += 1
            self._tell(f"{self._name(event.task_id)}: {event.status.value}")
        elif isinstance(event, CandidateConfirmed):
            self._tell(f"{self._name(event.task_id)}: confirmation, {event.status.value}")
        elif isinstance(event, ModelRemarked):
            self._tell(event.sentence)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def _tell(self, message: str) -> None:
        total = float(self._tasks * self._per_task) or None
        self._handle.tell(float(self._judged), total, message)

    def _name(self, task_id: str) -> str:
        return self._names.get(task_id, task_id[:8])
