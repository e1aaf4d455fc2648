"""A speedup as a number that says whether it was measured."""

from typing import Self

from kernelwright.evaluator.gain import Gain


class Speedup(float):
    """How many times faster than MLX at its best; it prints as `1.48×`, or `~1.48×` if predicted.

    It is a float for comparisons and arithmetic; 1.0 where MLX stays. `gain` has the times, the
    baseline, the chip and the interval.
    """

    gain: Gain | None

    @classmethod
    def of(cls, gain: Gain | None) -> Self:
        """Return a gain's ratio; 1 without a gain, or where MLX is faster and therefore stays."""
        speedup = cls(gain.ratio if gain is not None and gain.beats_mlx else 1.0)
        speedup.gain = gain
        return speedup

    @property
    def is_measured(self) -> bool:
        """True for a measurement; false for a prediction, or where there is no kernel."""
        return self.gain is not None and self.gain.kind == "measured"

    def __str__(self) -> str:
        if self.gain is None:
            return "1.00× (no kernel: MLX runs)"
        if not self.gain.beats_mlx:
            return f"1.00× (MLX is best: the kernel's {self.gain.words})"
        return self.gain.words

    def __repr__(self) -> str:
        return f"Speedup({self})"
