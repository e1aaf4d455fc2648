"""MLX's own answer to a case, and what `mx.allclose` says of a candidate's beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.bounded import interpret_bounded
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.evaluator.oracle.row_blocks import (
    RowBlocks,
    block_inputs,
    first_alike,
    row_blocks,
)
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.ranking import sort_partitions
from kernelwright.ir.trace.array import to_numpy

AnyArray = NDArray[np.generic]
_LITERAL_ELEMENTS = 1 << 18
"""Up to so many elements `mx.allclose` reads all of them; of more, those that it might refuse."""
_PART_ELEMENTS = 1 << 16
_SURE = 0.96
"""Share of the tolerance within which no rounding of the comparison itself can decide: bfloat16
rounds a difference by 0.4 %."""
_WIDEST = 8
"""Bytes of the widest integers by which bits are compared."""
_LEAST_SURE, _LARGEST_SURE = 2.0**-100, 0.25
"""Limits and relative tolerances between which that holds."""


def run_mlx(graph: Graph, inputs: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
    """Return what MLX itself computes for the graph, on the CPU, with partitions in order.

    A large graph whose rows do not depend on each other runs block by block on all cores, for
    MLX uses one. An index that is out of range means the nearest that is not, for MLX would read
    and write wherever it points.
    """
    blocks = row_blocks(graph)
    if blocks is None:
        return _run_whole(graph, inputs)
    made = tuple(np.empty(t.shape, t.dtype.numpy) for t in graph.output_types)
    same = first_alike(blocks, inputs)

    def run(start: int) -> None:
        part, cut = block_inputs(graph, blocks, inputs, start)
        rows = _run_whole(part, cut)
        for whole, place, array in zip(made, _places(blocks, start), rows, strict=True):
            whole[place] = array

    def repeat(start: int) -> None:
        places = zip(made, _places(blocks, start), _places(blocks, same[start]), strict=True)
        for whole, place, first in places:
            whole[place] = whole[first]

    in_parts(run, [start for start in blocks.starts if same[start] == start])
    in_parts(repeat, [start for start in blocks.starts if same[start] != start])
    return made


def _places(blocks: RowBlocks, start: int) -> tuple[tuple[slice, ...], ...]:
    rows = slice(start, min(start + blocks.block, blocks.rows))
    return tuple((*[slice(None)] * axis, rows) for axis in blocks.output_axes)


def _run_whole(graph: Graph, inputs: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
    with mx.stream(mx.cpu):
        outputs = interpret_bounded(sort_partitions(graph), *inputs)
        mx.eval(outputs)
        return tuple(to_numpy(array) for array in outputs)


@dataclass(frozen=True)
class AllcloseAnswer:
    """What `mx.allclose` compares an output with."""

    computed: AnyArray | None
    """MLX's answer; None where MLX does not run."""
    is_close: bool = False
    """It is so close to the float64 oracle that outputs can be held to it."""

    @property
    def own(self) -> AnyArray | None:
        """MLX's answer, where outputs are held to it."""
        return self.computed if self.is_close else None

    @classmethod
    def of(cls, own: AnyArray, wanted: ExpectedOutput) -> "AllcloseAnswer":
        """Take MLX's answer unless it fails beside the oracle rounded to the dtype.

        It is held to half of the tolerance: a right output that errs by the other half, to the
        other side, is then close to it.
        """
        return cls(own, _is_allclose(own, wanted.rounded, wanted, wanted.tolerance.halved))


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
        if not _is_allclose(found, beside, wanted, wanted.tolerance):
            return Closeness(place, is_beside_mlx=answer.own is not None)
    return Closeness(is_beside_mlx=is_beside_mlx)


def _is_allclose(
    found: AnyArray, answer: AnyArray, wanted: ExpectedOutput, tolerance: Tolerance
) -> bool:
    """Call `mx.allclose` on what is not left to the derived bound; integers have to be equal."""
    one, other = (np.ascontiguousarray(array).reshape(-1) for array in (found, answer))
    dtype = wanted.type.dtype
    if not (dtype.is_float or dtype.is_complex):
        return wanted.element_tolerance is not None or not _different(one, other, wanted).size
    places = _undecided(one, other, wanted, tolerance)
    return not places.size or _call(one[places], other[places], tolerance)


def _undecided(
    one: AnyArray, other: AnyArray, wanted: ExpectedOutput, tolerance: Tolerance
) -> NDArray[np.intp]:
    """Return the places of what is compared: of much, only where `mx.allclose` might refuse."""
    if one.size <= _LITERAL_ELEMENTS or one.dtype.itemsize > _WIDEST:
        places = np.arange(one.size)
        return places[~_left_to_bound(wanted, places)]
    return _different(one, other, wanted, tolerance)


def _different(
    one: AnyArray, other: AnyArray, wanted: ExpectedOutput, tolerance: Tolerance | None = None
) -> NDArray[np.intp]:
    """Return where bits differ, and are not so close that a tolerance surely allows it."""
    bits: np.dtype[np.generic] = np.dtype(f"u{one.dtype.itemsize}")

    def places_of(start: int) -> NDArray[np.intp]:
        part = slice(start, start + _PART_ELEMENTS)
        a, b = one[part], other[part]
        places = np.flatnonzero(a.view(bits) != b.view(bits))
        if tolerance is not None and places.size:
            places = places[~_is_surely_close(a[places], b[places], tolerance)]
        places += start
        return places[~_left_to_bound(wanted, places)] if places.size else places

    return np.concatenate(in_parts(places_of, range(0, max(one.size, 1), _PART_ELEMENTS)))


def _is_surely_close(one: AnyArray, other: AnyArray, tolerance: Tolerance) -> Mask:
    """Mark finite numbers so close that `mx.allclose` accepts them however it rounds."""
    if one.dtype.kind == "c" or tolerance.relative > _LARGEST_SURE:
        return np.zeros(one.shape, bool)
    a, b = one.astype(np.float32), other.astype(np.float32)
    with np.errstate(all="ignore"):
        limit = np.float32(_SURE) * (tolerance.absolute + tolerance.relative * np.abs(b))
        return np.asarray((np.abs(a - b) <= limit) & (limit > _LEAST_SURE) & np.isfinite(limit))


def _left_to_bound(wanted: ExpectedOutput, places: NDArray[np.intp]) -> Mask:
    """Mark elements where rounding explains more than half of what the tolerance allows.

    Cancellation does that, to MLX's answer as well; the derived bound judges these. A tolerance
    that somebody asked for is held to everywhere.
    """
    ignored = np.zeros(places.shape, bool)
    if wanted.ignored is not None:
        ignored = wanted.ignored.reshape(-1)[places]
    limits, tolerance = wanted.element_tolerance, wanted.tolerance
    if limits is None or tolerance != Tolerance.of(wanted.type.dtype):
        return ignored
    size = np.abs(wanted.rounded.reshape(-1)[places].astype(np.float32))
    allowed = tolerance.absolute + tolerance.relative * size
    return np.asarray(ignored | (limits.reshape(-1)[places] > allowed / 2))


def _call(one: AnyArray, other: AnyArray, tolerance: Tolerance) -> bool:
    with mx.stream(mx.cpu):
        close = mx.allclose(
            _as_mlx(one),
            _as_mlx(other),
            rtol=tolerance.relative,
            atol=tolerance.absolute,
            equal_nan=True,
        )
        return bool(close.item())


def _as_mlx(array: AnyArray) -> mx.array:
    dense = np.ascontiguousarray(array)
    if dense.dtype.name == "bfloat16":
        return mx.array(dense.view(np.uint16)).view(mx.bfloat16)
    return mx.array(dense)
