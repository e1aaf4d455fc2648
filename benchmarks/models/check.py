"""Is a candidate right enough to be timed? The evaluator proves the templates elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.execution import MlxExecutable


@dataclass
class Check:
    """Compares candidates of one region with MLX, and with the oracle where they differ."""

    graph: Graph
    inputs: Sequence[mx.array]
    expected: Sequence[mx.array]
    """MLX's own answers."""

    def problem(self, executable: MlxExecutable) -> str:
        """Return why a candidate is wrong, or nothing."""
        try:
            found = executable.graph(self.inputs)
            mx.eval(found)
        except (RuntimeError, ValueError) as e:
            return str(e)[:500]
        if all(self._is_close(a, b) for a, b in zip(found, self.expected, strict=True)):
            return ""
        # MLX's own answer may be the worse one, where it adds up in half precision.
        for place, (array, allowed) in enumerate(zip(found, self._allowed, strict=True)):
            error = self._error(array, place)
            if not error <= allowed:
                return f"output {place} has a relative error of {error:.2g}, not {allowed:.2g}"
        return ""

    def _is_close(self, found: mx.array, expected: mx.array) -> bool:
        # MLX rounds intermediate values to their dtypes: its own error is that of the coarsest.
        tolerances = [Tolerance.of(t.dtype) for t in self.graph.types]
        tolerance = max(tolerances, key=lambda t: t.relative)
        close = mx.allclose(
            found.astype(mx.float32),
            expected.astype(mx.float32),
            rtol=4 * tolerance.relative,
            atol=4 * tolerance.absolute,
            equal_nan=True,
        )
        return bool(close.item())

    @cached_property
    def _oracle(self) -> Sequence[Array]:
        return reference(self.graph, [to_numpy(x) for x in self.inputs])

    @cached_property
    def _allowed(self) -> list[float]:
        """Twice MLX's own error, and one rounding."""
        return [
            2 * self._error(array, place) + t.dtype.epsilon
            for place, (array, t) in enumerate(
                zip(self.expected, self.graph.output_types, strict=True)
            )
        ]

    def _error(self, found: mx.array, place: int) -> float:
        """Return an output's error where the oracle and MLX both have a number."""
        exact, own = self._oracle[place], to_numpy(self.expected[place])
        return relative_error(to_numpy(found), exact, np.isfinite(exact) & np.isfinite(own))


def relative_error(found: Array, exact: Array, judged: NDArray[np.bool_]) -> float:
    """Return the error relative to the judged elements' size, or the share of wrong integers."""
    if found.dtype.kind not in "fcV":
        return float(np.mean(found != exact))
    array, exact = found[judged], exact[judged]
    difference = array.astype(np.float64) - exact.astype(np.float64)
    return float(np.linalg.norm(difference) / max(float(np.linalg.norm(exact)), 1e-30))
