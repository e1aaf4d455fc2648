"""Reading masks that are made of positions: which diagonals they let through."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.passes.reading import number

_LONGEST = 32
"""Nodes between a mask and its ranges; people write fewer."""


@dataclass(frozen=True)
class Linear:
    """A number for each row and column: `row * r + column * c + offset`."""

    row: float = 0.0
    column: float = 0.0
    offset: float = 0.0

    def plus(self, other: "Linear", factor: float = 1.0) -> "Linear":
        """Add another one, so many times."""
        return Linear(
            self.row + factor * other.row,
            self.column + factor * other.column,
            self.offset + factor * other.offset,
        )

    def times(self, factor: float) -> "Linear":
        """Multiply it."""
        return Linear(self.row * factor, self.column * factor, self.offset * factor)


ROW, COLUMN = Linear(row=1.0), Linear(column=1.0)
Axes = tuple[Linear | None, ...]
"""Where each axis of a value stands; None for one that rows and columns say nothing about."""


@dataclass(frozen=True)
class Band:
    """What a mask holds: one number where `low <= column - row <= high`, another elsewhere."""

    low: float
    high: float
    inside: float
    outside: float

    def where(self, held: float) -> tuple[float, float] | None:
        """Return the range of diagonals on which it holds a number, if they are neighbours."""
        if held == self.inside != self.outside:
            return self.low, self.high
        return _side(self.low, self.high, False) if held == self.outside else None


def band_of(builder: GraphBuilder, mask: ValueId) -> Band | None:
    """Return the band of a mask whose last axes are rows and columns, if it is one."""
    rank = len(builder.types[mask].shape)
    if rank < 2:
        return None
    reader = _Reader(builder, has_one_row=builder.types[mask].shape[-2] == 1)
    return reader.band(mask, (*(None,) * (rank - 2), ROW, COLUMN))


class _Reader:
    """Reads one mask, and gives up where it is too deep."""

    def __init__(self, builder: GraphBuilder, *, has_one_row: bool) -> None:
        self.builder = builder
        self.has_one_row = has_one_row
        self.left = _LONGEST

    def band(self, value: ValueId, axes: Axes) -> Band | None:
        """Read a value that is one of two numbers."""
        if (held := number(self.builder, value)) is not None:
            return Band(-math.inf, math.inf, held, held)
        node = self.builder.producer(value)
        self.left -= 1
        if node is None or self.left < 0:
            return None
        if (inner := _below(self.builder, node, axes)) is not None:
            return self.band(node.inputs[0], inner)
        if node.op in ("less", "less_equal", "greater", "greater_equal"):
            compared = self._compared(node, axes)
            if compared is not None:
                return compared
        if op_named(node.op).kind is not Kind.ELEMENTWISE:
            return None
        read = [self.band(v, axes) for v in node.inputs]
        bands = [b for b in read if b is not None]
        return self._joined(node, bands) if len(bands) == len(read) else None

    def _compared(self, node: Node, axes: Axes) -> Band | None:
        """Read a comparison of two positions, or of their distance and a number."""
        left, right = node.inputs if node.op.startswith("less") else node.inputs[::-1]
        strict = 0 if node.op.endswith("equal") else 1
        if (near := self._distance(left, right, axes)) is not None:
            (low, high), limit = near
            return Band(low - limit + strict, high + limit - strict, 1.0, 0.0)
        if (far := self._distance(right, left, axes)) is not None:
            # A number is less than a distance outside of a band.
            (low, high), limit = far
            return Band(low - limit + 1 - strict, high + limit - 1 + strict, 0.0, 1.0)
        a, b = self.linear(left, axes), self.linear(right, axes)
        difference = b.plus(a, -1.0) if a is not None and b is not None else None
        if difference is None or not self._runs_along(difference):
            return None
        # What is compared is `0 <= difference`, or `1 <= difference` where the sign is strict.
        bound = strict - difference.offset
        if difference.column > 0:
            return Band(bound, math.inf, 1.0, 0.0)
        return Band(-math.inf, -bound, 1.0, 0.0)

    def _distance(
        self, value: ValueId, limit: ValueId, axes: Axes
    ) -> tuple[tuple[float, float], float] | None:
        """Read `abs(column - row + offset)` beside a number: where it is 0, and the number."""
        held, node = number(self.builder, limit), self.builder.producer(value)
        if held is None or node is None or not held.is_integer():
            return None
        if (inner := _below(self.builder, node, axes)) is not None:
            return self._distance(node.inputs[0], limit, inner)
        between = self.linear(node.inputs[0], axes) if node.op == "abs" else None
        if between is None or not self._runs_along(between):
            return None
        middle = -between.offset / between.column
        return (middle, middle), held

    def _runs_along(self, between: Linear) -> bool:
        """Say whether a number is the same all along each diagonal; one row has no direction."""
        is_even = between.row == -between.column or self.has_one_row
        return abs(between.column) == 1.0 and is_even and float(between.offset).is_integer()

    def linear(self, value: ValueId, axes: Axes) -> Linear | None:
        """Read a value that grows evenly along rows and columns."""
        if (held := number(self.builder, value)) is not None:
            return Linear(offset=held)
        node = self.builder.producer(value)
        self.left -= 1
        if node is None or self.left < 0:
            return None
        if (inner := _below(self.builder, node, axes)) is not None:
            return self.linear(node.inputs[0], inner)
        if node.op == "arange":
            attributes = dict(node.attributes)
            start, step = attributes["start"], attributes["step"]
            assert isinstance(start, int | float)
            assert isinstance(step, int | float)
            return None if axes[0] is None else axes[0].times(step).plus(Linear(offset=start))
        read = [self.linear(v, axes) for v in node.inputs]
        known = [r for r in read if r is not None]
        return _arithmetic(node.op, known) if len(known) == len(read) else None

    def _joined(self, node: Node, bands: Sequence[Band]) -> Band | None:
        """Apply an op to what its operands hold inside and outside of their bands.

        Of two different bands, all must be one number but where both, or neither, or one alone
        lets through.
        """
        ranges = list(dict.fromkeys((b.low, b.high) for b in bands if b.inside != b.outside))
        if len(ranges) > 2:
            return None
        cells = {
            sides: self._apply(node, [_at(band, ranges, sides) for band in bands])
            for sides in product((True, False), repeat=len(ranges))
        }
        made = list(cells.values())
        alone = [sides for sides, number in cells.items() if made.count(number) == 1]
        if len(ranges) == 2 and (len(alone) != 1 or len(set(made)) != 2):
            return None
        chosen = alone[0] if alone else next(iter(cells))
        found = [_side(*range_, is_in) for range_, is_in in zip(ranges, chosen, strict=True)]
        known = [side for side in found if side is not None]
        if len(known) != len(found):
            return None
        low = max((side[0] for side in known), default=-math.inf)
        high = min((side[1] for side in known), default=math.inf)
        outside = next((n for sides, n in cells.items() if sides != chosen), cells[chosen])
        return Band(low, high, cells[chosen], outside)

    def _apply(self, node: Node, numbers: Sequence[float]) -> float:
        """Compute what an elementwise op makes of some numbers."""
        types = [self.builder.types[v] for v in (*node.inputs, *node.outputs)]
        scalars = [replace(t, shape=()) for t in types]
        call = Call(dict(node.attributes), tuple(scalars[:-1]), tuple(scalars[-1:]))
        meaning = op_named(node.op).meaning
        assert meaning is not None
        arrays = [
            np.asarray(n, t.dtype.numpy if not t.dtype.is_float else np.float64)
            for n, t in zip(numbers, scalars[:-1], strict=True)
        ]
        with np.errstate(all="ignore"):
            made = np.asarray(meaning(call, *arrays))
        return float(made.reshape(()))


def _side(low: float, high: float, is_in: bool) -> tuple[float, float] | None:
    """Return a range, or what is left of all diagonals without it, if that is a range too."""
    if is_in:
        return low, high
    if low == -math.inf:
        return high + 1, math.inf
    return (-math.inf, low - 1) if high == math.inf else None


def _at(band: Band, ranges: Sequence[tuple[float, float]], sides: Sequence[bool]) -> float:
    """Return what a band holds where each range is left or entered."""
    for range_, is_in in zip(ranges, sides, strict=True):
        if range_ == (band.low, band.high):
            return band.inside if is_in else band.outside
    return band.inside


def _arithmetic(op: str, read: Sequence[Linear]) -> Linear | None:
    match op, read:
        case "cast", [a]:
            return a
        case "negative", [a]:
            return a.times(-1.0)
        case "add", [a, b]:
            return a.plus(b)
        case "subtract", [a, b]:
            return a.plus(b, -1.0)
        case "multiply", [a, b] if b.row == b.column == 0.0:
            return a.times(b.offset)
    return None


def _below(builder: GraphBuilder, node: Node, axes: Axes) -> Axes | None:
    """Return where the axes of a view's source stand; None where the node is no such view."""
    if node.op not in ("broadcast", "reshape", "transpose"):
        return None
    before, after = (builder.types[v].shape for v in (node.inputs[0], node.outputs[0]))
    if node.op == "transpose":
        order = Call(dict(node.attributes), (), ()).integers("axes")
        return tuple(axes[order.index(i)] for i in range(len(before)))
    if node.op == "broadcast":
        kept: list[Linear | None] | None = list(axes[len(after) - len(before) :])
    else:
        kept = _unshaped(before, after, axes)
    if kept is None:
        return None
    return tuple(Linear() if n == 1 else axis for n, axis in zip(before, kept, strict=True))


def _unshaped(
    before: Sequence[int], after: Sequence[int], axes: Axes
) -> list[Linear | None] | None:
    """Return where the axes stood before a reshape, the innermost first as long as they agree."""
    left = [(n, axis) for n, axis in zip(after, axes, strict=True) if n != 1]
    found: list[Linear | None] = []
    is_same = True
    for size in reversed(before):
        is_same = is_same and bool(size == 1 or (left and left[-1][0] == size))
        found.insert(0, left.pop()[1] if is_same and size != 1 else None)
    # Axes of heads and batches may be split and joined: nothing is known of them anyway.
    return found if all(axis is None for _, axis in left) else None
