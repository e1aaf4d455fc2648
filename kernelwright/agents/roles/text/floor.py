"""The least time that a task can take on a chip, so that nobody is asked to go below it."""

from dataclasses import dataclass

from kernelwright.agents.session.tools.report import chip_of
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.speed.roofline import least_bytes, least_operations
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo

_AT_FLOOR = 1.03


@dataclass(frozen=True)
class Floor:
    """One launch that moves and multiplies only what every right kernel must."""

    launch_us: float
    wait_us: float
    """Until its first threads have begun, read once and ended, however little they do."""
    memory_us: float
    arithmetic_us: float

    @property
    def time_us(self) -> float:
        """The least time in all."""
        return self.launch_us + max(self._parts_us.values())

    @property
    def _parts_us(self) -> dict[str, float]:
        """What goes on side by side, by what it is for."""
        return {
            "until any threads have begun, read and ended": self.wait_us,
            "to move what must be": self.memory_us,
            "to multiply what must be": self.arithmetic_us,
        }

    def __str__(self) -> str:
        """Say it in a line."""
        reason, longest_us = max(self._parts_us.items(), key=lambda part: part[1])
        return (
            f"{self.time_us:.3g} us: {self.launch_us:.3g} us to start one kernel, and "
            f"{longest_us:.3g} us {reason}"
        )

    def is_reached_by(self, evaluation: Evaluation) -> bool:
        """Say whether a program is so near that nothing is left to gain."""
        taken_us = evaluation.taken_us
        return taken_us is not None and taken_us <= self.time_us * _AT_FLOOR


def floor_of(graph: Graph, device: DeviceInfo) -> Floor | None:
    """Return a task's floor on the chip that times hold for, None where its profile is unknown."""
    chip = chip_of(device)
    if chip is None:
        return None
    return Floor(
        launch_us=chip.launch_us,
        wait_us=chip.least_wait_us,
        memory_us=least_bytes(graph) / (chip.bandwidth_gb_s * 1e3 * chip.bandwidth_efficiency),
        arithmetic_us=least_operations(graph) / (chip.float_tflops * 1e6),
    )
