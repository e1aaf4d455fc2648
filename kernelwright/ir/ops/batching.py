"""Along which axes an op treats slices of an operand alike and apart, as a batch."""

from itertools import accumulate
from operator import mul

from kernelwright.ir.ops.axes import reduced_axes, slices
from kernelwright.ir.ops.op import Axes, Call, Kind, Op

MIXED: Axes = frozenset()
"""Slices meet in the result, or stand elsewhere in it."""


def batch_axes(op: Op, call: Call, place: int, axes: Axes) -> Axes:
    """Return the axes of the results along which slices of one operand stay apart, in order.

    Slice `i` of the operand along `axes` decides slice `i` of the results and no other. Empty where
    slices meet or change places; a merged axis counts, whose longer slices stay apart as well.
    """
    if op.batching is not None:
        return op.batching(call, place, axes)
    match op.kind:
        case Kind.ELEMENTWISE:
            return trailing(call, place, axes)
        case Kind.VIEW:
            return regrouped(call, place, axes)
        case Kind.REDUCTION:
            return _reduced(call, place, axes)
        case Kind.SCAN | Kind.SORT if len(call.inputs) == 1:
            return beside_axis(call, place, axes)
        case _:
            return MIXED


def mixed(call: Call, place: int, axes: Axes) -> Axes:
    """Keep no slices apart."""
    return MIXED


def trailing(call: Call, place: int, axes: Axes) -> Axes:
    """Count axes from the end, as broadcasting does."""
    shift = len(call.outputs[0].shape) - len(call.inputs[place].shape)
    return frozenset(axis + shift for axis in axes)


def permuted(call: Call, place: int, axes: Axes) -> Axes:
    """Follow axes that change places."""
    order = call.integers("axes")
    return frozenset(new for new, old in enumerate(order) if old in axes)


def cut(call: Call, place: int, axes: Axes) -> Axes:
    """Keep axes that a slice takes whole."""
    shape, places = call.inputs[0].shape, slices(call)
    is_whole = all(range(shape[a])[places[a]] == range(shape[a]) for a in axes)
    return axes if is_whole else MIXED


def beside_axis(call: Call, place: int, axes: Axes) -> Axes:
    """Keep all axes but the one that the op works along."""
    if "axis" not in call.attributes:
        return MIXED
    axis = call.integer("axis") % max(len(call.inputs[0].shape), 1)
    return MIXED if axis in axes else axes


def beside_axes(call: Call, place: int, axes: Axes) -> Axes:
    """Keep all axes of the first operand but those that the op works along."""
    return MIXED if place or axes.intersection(call.integers("axes")) else axes


def regrouped(call: Call, place: int, axes: Axes) -> Axes:
    """Follow axes through a reshape: to all axes that theirs were merged into or split to."""
    before, after = (_ends(t.shape) for t in (call.inputs[0], call.outputs[0]))
    found: set[int] = set()
    start = 1
    for end in sorted(before.keys() & after.keys()):
        # Axes between two places where both shapes begin a new one hold the same elements.
        old, new = ({a for e, a in ends.items() if start < e <= end} for ends in (before, after))
        found |= new if old & axes else set()
        start = end
    return frozenset(found)


def _ends(shape: tuple[int, ...]) -> dict[int, int]:
    """Return the axes longer than one by how many elements those up to them hold."""
    if 0 in shape:
        return {}
    ends = accumulate(shape, mul)
    return {end: axis for axis, end in enumerate(ends) if shape[axis] > 1}


def _reduced(call: Call, place: int, axes: Axes) -> Axes:
    gone = reduced_axes(call)
    if axes.intersection(gone):
        return MIXED
    if len(call.outputs[0].shape) == len(call.inputs[0].shape):
        return axes
    return frozenset(axis - sum(g < axis for g in gone) for axis in axes)


def multiplied(call: Call, place: int, axes: Axes) -> Axes:
    """Keep batches of a product, rows of its left operand and columns of its right one."""
    rank = len(call.inputs[place].shape)
    own = (rank - 2, rank - 1)[place] if place < 2 else -1
    is_kept = rank >= 2 and all(axis < rank - 2 or axis == own for axis in axes)
    return trailing(call, place, axes) if is_kept and own >= 0 else MIXED


def multiplied_left(call: Call, place: int, axes: Axes) -> Axes:
    """Keep batches and rows of the left operand of a product with packed weights."""
    return multiplied(call, 0, axes) if place == 0 else MIXED


def attended(call: Call, place: int, axes: Axes) -> Axes:
    """Keep batches and heads of queries, keys and values that are not shared, and queries."""
    if place > 2:
        return MIXED
    before, after = call.inputs[place].shape, call.outputs[0].shape
    last = 3 if place == 0 else 2
    is_kept = all(axis < last and before[axis] == after[axis] for axis in axes)
    return axes if is_kept else MIXED


def convolved(call: Call, place: int, axes: Axes) -> Axes:
    """Keep batches."""
    return axes if place == 0 and axes <= {0} else MIXED


def gathered(call: Call, place: int, axes: Axes) -> Axes:
    """Keep rows of indices, which come first in the result."""
    return axes if place else MIXED


__all__ = ["Axes", "batch_axes"]
