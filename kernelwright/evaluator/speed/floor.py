"""The least time of a task: what goes on side by side, and the start of a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.evaluator.evaluation import Evaluation

_AT_FLOOR = 1.03


@dataclass(frozen=True)
class Floor:
    """What every right kernel of a task must do, and how long that takes at least."""

    launch_us: float
    """To start one kernel; nothing else goes on beside it."""
    parts_us: Mapping[str, float]
    """What goes on side by side, by what it is for."""

    @property
    def time_us(self) -> float:
        """The least time in all."""
        return self.launch_us + max(self.parts_us.values())

    @property
    def reason(self) -> str:
        """What the longest part is for."""
        return max(self.parts_us, key=lambda part: self.parts_us[part])

    def __str__(self) -> str:
        """Say it in a line."""
        return (
            f"{self.time_us:.3g} us: {self.launch_us:.3g} us to start one kernel, and "
            f"{self.parts_us[self.reason]:.3g} us {self.reason}"
        )

    def is_reached_by(self, evaluation: Evaluation) -> bool:
        """Say whether a program is so near that nothing is left to gain."""
        taken_us = evaluation.taken_us
        return taken_us is not None and taken_us <= self.time_us * _AT_FLOOR
