"""What ran for a call, why, and what it saved."""

from typing import Literal

from kernelwright.evaluator.gain import Gain
from kernelwright.metal.diagnostic import Record

Path = Literal["kernels", "original"]


class ServedRegion(Record):
    """One part of the function that runs a kernel of the store."""

    operation: str
    candidate: str
    """Id of the champion in the store."""
    gain: Gain
    """Over MLX at its best for the same part."""


class Explanation(Record):
    """How a call at certain shapes and dtypes is answered."""

    function: str
    inputs: tuple[str, ...]
    path: Path
    reason: str
    """Why the original runs, or what the kernels cover."""
    regions: tuple[ServedRegion, ...] = ()
    gradient: str = ""
    """How its gradient is computed; empty before there was one."""
    calls: int = 0

    def __str__(self) -> str:
        """Render in a few lines."""
        head = f"{self.function}({', '.join(self.inputs)}): {self.reason}"
        rows = [
            f"  {r.operation}: kernel {r.candidate[:8]}, {r.gain.kernel_time} where MLX takes "
            f"{r.gain.mlx_time}, {r.gain.words}"
            for r in self.regions
        ]
        gradient = [f"  gradient: {self.gradient}"] if self.gradient else []
        return "\n".join([head, *rows, *gradient])
