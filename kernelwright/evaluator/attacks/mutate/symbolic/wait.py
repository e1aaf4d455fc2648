"""What a thread comes to while it runs: waits for others, and conditions that nothing decides."""

from collections.abc import Generator
from dataclasses import dataclass

from kernelwright.evaluator.attacks.mutate.symbolic.memory import Pointer
from kernelwright.evaluator.attacks.mutate.symbolic.term import Term, UnprovenError, Value


class UndecidedError(UnprovenError):
    """Threads that wait for each other may part by a condition on data."""

    def __init__(self, condition: Term) -> None:
        super().__init__("threads wait behind a condition on data.")
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread has come to: a barrier, or an operation of its simdgroup."""

    kind: str
    """`barrier`, or the function that combines what lanes publish."""
    detail: tuple[int, ...]
    """A barrier's flags and place; sizes in and out, and the place."""
    published: tuple[tuple[int, int, Value], ...] = ()
    """What a lane gives: where each part begins, how many bytes it has, and its value."""
    result: Pointer | None = None
    under: tuple[tuple[Term, bool], ...] = ()
    """The conditions on data that it stands under: where one is not met, nobody waits."""


@dataclass
class Budget:
    """How many instructions may still run."""

    left: int

    def take(self, count: int = 1) -> None:
        """Count some."""
        self.left -= count
        if self.left < 0:
            raise UnprovenError("it takes too many steps.")


Waits = Generator[Wait, None, str]
