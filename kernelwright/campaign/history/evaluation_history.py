"""What a judge remembers of a task from one candidate, and one run, to the next."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.stated_case import StatedCaughtCase
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program
from kernelwright.store import KernelStore

_KEPT: TypeAdapter[CaughtCase] = TypeAdapter(StatedCaughtCase | CaughtCase)


class Memory(Protocol):
    """How much was tried on a task, and what has caught a candidate there."""

    def tried(self, task: Task, program: Program) -> int:
        """Return how many candidates of a task there were up to and with this one, at least 1."""

    def regressions(self, task: Task) -> Sequence[CaughtCase]:
        """Return the cases that have caught a candidate."""

    def keep(self, case: CaughtCase) -> None:
        """Remember a case that has caught a candidate."""


class OwnMemory:
    """Remembers as long as the process lives."""

    def __init__(self) -> None:
        self._programs: dict[str, set[str]] = {}

    def tried(self, task: Task, program: Program) -> int:
        """Count the programs that were asked about."""
        seen = self._programs.setdefault(task.fingerprint, set())
        seen.add(program.id)
        return len(seen)

    def regressions(self, task: Task) -> Sequence[CaughtCase]:
        """Return none: the evaluator holds those of its own time."""
        return ()

    def keep(self, case: CaughtCase) -> None:
        """Leave it to the evaluator."""


class StoredMemory:
    """Remembers in the store, over campaigns: luck is drawn anew in each of them."""

    def __init__(self, store: KernelStore) -> None:
        self._store = store

    def tried(self, task: Task, program: Program) -> int:
        """Count the candidates of a task that anybody intended or judged."""
        return max(1, self._store.tried(task.fingerprint))

    def regressions(self, task: Task) -> Sequence[CaughtCase]:
        """Read a task's cases; one that this version cannot read is passed over."""
        found: list[CaughtCase] = []
        for body in self._store.dialogue.regression_cases(task.fingerprint):
            with suppress(ValidationError):
                found.append(_KEPT.validate_json(body))
        return tuple(found)

    def keep(self, case: CaughtCase) -> None:
        """Write a case, once."""
        self._store.dialogue.keep_regression_case(task_id=case.task, body=case.model_dump_json())
