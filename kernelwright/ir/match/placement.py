"""Where the elements of a view lie in what it views, whatever broadcasts and reshapes made it.

A reshape moves nothing in row-major order, so that a chain of both is a function of flat places:
mixed-radix digits, each with its stride. Two views of one value that hold the same elements in the
same order have the same digits.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.ir.graph import Node, ValueId

if TYPE_CHECKING:
    from kernelwright.ir.match.pattern import Source

Placement = tuple[tuple[int, int], ...]
"""Sizes and strides of digits, the outermost first; none is 1 in size, no two are one."""


View = tuple[ValueId, Placement]
"""A value, and which of its elements in which order."""


def in_order(size: int) -> Placement:
    """Return the placement of a view that holds every element once, in order."""
    return in_steps(size, 1)


def in_steps(count: int, step: int) -> Placement:
    """Return the placement of elements that are a step apart."""
    return _merged([(count, step)])


def broadcast_placement(source: Sequence[int], target: Sequence[int]) -> Placement:
    """Return where the elements of a broadcast lie in a source of a shape."""
    shape = (*(1,) * (len(target) - len(source)), *source)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    rows = zip(shape, target, strides, strict=True)
    return _merged((n, 0 if size != n else stride) for size, n, stride in rows)


@dataclass(frozen=True)
class Rows:
    """What is reduced to one element each: some axes of a shape."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def placement(self) -> Placement:
        """Where the one element of each row lies, repeated along the row."""
        kept = [1 if axis in self.axes else n for axis, n in enumerate(self.shape)]
        return broadcast_placement(kept, self.shape)

    @property
    def count(self) -> int:
        """How many elements a row has."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def are_last(self) -> bool:
        """Say whether rows are the last axis."""
        return self.axes == (len(self.shape) - 1,)

    def within(self, shape: Sequence[int]) -> "Rows | None":
        """Return the same rows as neighbouring axes of a reshape; None where they are none."""
        whole = tuple(shape)
        rank = len(whole)
        ranges = (tuple(range(i, j)) for i in range(rank) for j in range(i + 1, rank + 1))
        ways = (Rows(whole, axes) for axes in (self.axes, *ranges))
        return next((rows for rows in ways if rows.placement == self.placement), None)


def composed(outer: Placement, inner: Placement) -> Placement | None:
    """Return the placement of a view of a view; None where its digits do not fall together."""
    found: list[tuple[int, int]] = []
    for size, stride in outer:
        digits = _under(size, stride, inner)
        if digits is None:
            return None
        found += digits
    return _merged(found)


def placed(
    source: "Source",
    value: ValueId,
    places: Placement | None = None,
    *,
    through_casts: bool = False,
) -> View:
    """Return what a value is a view of, and where its elements lie there.

    `places` are those of the value that are asked for, if that is not all of them in order.
    `through_casts` also looks through casts to floats, whose numbers stay, rounding aside.
    """
    if places is None:
        places = in_order(source.type(value).size)
    while (node := source.node(value)) is not None:
        below: Placement | None = places
        if node.op == "broadcast":
            shapes = (source.type(v).shape for v in (node.inputs[0], value))
            below = composed(places, broadcast_placement(*shapes))
        elif node.op != "reshape" and not (through_casts and _keeps_numbers(source, node)):
            break
        if below is None:
            break
        value, places = node.inputs[0], below
    return value, places


def _keeps_numbers(source: "Source", node: Node) -> bool:
    if node.op != "cast":
        return False
    before, after = (source.type(v).dtype for v in (node.inputs[0], node.outputs[0]))
    return after.is_float and not before.is_complex


def _merged(digits: Iterable[tuple[int, int]]) -> Placement:
    found: list[tuple[int, int]] = []
    for size, stride in digits:
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def _under(size: int, stride: int, inner: Placement) -> list[tuple[int, int]] | None:
    """Return the digits of places `0, stride … (size - 1) * stride` of an inner view."""
    if stride == 0:
        return [(size, 0)]
    found: list[tuple[int, int]] = []
    if not size or not all(digit for digit, _ in inner):
        # A view of no elements has no places.
        return None
    for digit, step in reversed(inner):
        if stride >= digit:
            if stride % digit:
                return None
            stride //= digit
            continue
        count = min(size, -(-digit // stride))
        if count < size and (digit % stride or size % count):
            return None
        found.insert(0, (count, stride * step))
        size, stride = size // count, 1
        if size == 1:
            return found
    return None
