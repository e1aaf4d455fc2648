"""MLX's own answer to a case, and what `mx.allclose` says of a candidate's beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.accuracy import measure
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.capture import to_numpy
from kernelwright.ir.graph import Graph
from kernelwright.ir.interpret import interpret
from kernelwright.ir.passes.ranking import sort_partitions

AnyArray = NDArray[np.generic]


def run_mlx(graph: Graph, inputs: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
    """Return what MLX itself computes for the graph, on the CPU, with partitions in order.

    No index may be out of range: MLX would read and write there.
    """
    with mx.stream(mx.cpu):
        outputs = interpret(sort_partitions(graph), *inputs)
        mx.eval(outputs)
        return tuple(to_numpy(array) for array in outputs)


@dataclass(frozen=True)
class AllcloseAnswer:
    """What `mx.allclose` compares an output with."""

    own: AnyArray | None
    """MLX's answer, where it is so close to the float64 oracle that it can be held to."""
    row_relative: float = 0.0
    """MLX's own error in the row where it comes closest to the bound."""

    @classmethod
    def of(cls, own: AnyArray, wanted: ExpectedOutput) -> "AllcloseAnswer":
        """Take MLX's answer unless it fails beside the oracle rounded to the dtype.

        It is held to half of the tolerance: a right output that errs by the other half, to the
        other side, is then close to it.
        """
        row_relative = measure(own, wanted).row_relative
        skipped, half = _left_to_bound(wanted), wanted.tolerance.halved
        is_close = _is_allclose(own, wanted.rounded, wanted, half, skipped)
        return cls(own if is_close else None, row_relative)


@dataclass(frozen=True)
class Closeness:
    """What `mx.allclose` says of all outputs of a case."""

    failed: int | None = None
    """The first output that is not close."""
    is_beside_mlx: bool = True
    """False where the rounded oracle took the place of MLX's answer for an output."""


def closeness(
    outputs: Sequence[AnyArray],
    answers: Sequence[AllcloseAnswer],
    expected: Sequence[ExpectedOutput],
) -> Closeness:
    """Call `mx.allclose` on each output and MLX's answer, or the rounded oracle in its place."""
    is_beside_mlx = all(answer.own is not None for answer in answers)
    for place, (found, answer, wanted) in enumerate(zip(outputs, answers, expected, strict=True)):
        beside = wanted.rounded if answer.own is None else answer.own
        if not _is_allclose(found, beside, wanted, wanted.tolerance, _left_to_bound(wanted)):
            return Closeness(place, is_beside_mlx=answer.own is not None)
    return Closeness(is_beside_mlx=is_beside_mlx)


def _left_to_bound(wanted: ExpectedOutput) -> NDArray[np.bool_] | None:
    """Mark elements where rounding explains more than half of what the tolerance allows.

    Cancellation does that, to MLX's answer as well; the derived bound judges these. A tolerance
    that somebody asked for is held to everywhere.
    """
    limits, tolerance = wanted.element_tolerance, wanted.tolerance
    if limits is None or tolerance != Tolerance.of(wanted.type.dtype):
        return wanted.ignored
    allowed = tolerance.absolute + tolerance.relative * np.abs(wanted.rounded.astype(np.float32))
    beyond = np.asarray(2 * limits > allowed)
    return beyond if wanted.ignored is None else beyond | wanted.ignored


def _is_allclose(
    found: AnyArray,
    answer: AnyArray,
    wanted: ExpectedOutput,
    tolerance: Tolerance,
    skipped: NDArray[np.bool_] | None,
) -> bool:
    """Call `mx.allclose`, elements that are `skipped` left out; integers have to be equal."""
    if skipped is not None:
        found = np.where(skipped, answer, found)
    dtype = wanted.type.dtype
    with mx.stream(mx.cpu):
        one, other = _as_mlx(found), _as_mlx(answer)
        if not (dtype.is_float or dtype.is_complex):
            return wanted.element_tolerance is not None or bool(mx.array_equal(one, other).item())
        close = mx.allclose(
            one, other, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True
        )
        return bool(close.item())


def _as_mlx(array: AnyArray) -> mx.array:
    dense = np.ascontiguousarray(array)
    if dense.dtype.name == "bfloat16":
        return mx.array(dense.view(np.uint16)).view(mx.bfloat16)
    return mx.array(dense)
