"""What the errors of an elementwise op's operands do to its result."""

import itertools
from collections.abc import Sequence

import numpy as np

from kernelwright.evaluator.oracle.error_of_inner_extremes import farthest_inside
from kernelwright.evaluator.oracle.float_format import Reals
from kernelwright.evaluator.oracle.tracked import ANYTHING
from kernelwright.ir.graph import Node
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

_MOST_CORNERS = 16


def carried_error(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
) -> Reals | None:
    """Bound what the errors of the operands do to the result."""
    if all(e is None for e in errors):
        return None
    if op.name in ("negative", "abs", "stop_gradient"):
        return errors[0]
    is_float = all(v.dtype.kind == "f" for v in values)
    if op.name == "cast" and is_float and made.dtype.kind == "f":
        return errors[0]
    if is_float and len(values) == 2 and node.inputs[0] != node.inputs[1]:
        a, b = errors
        if op.name in ("add", "subtract"):
            zero = np.zeros(made.shape)
            whole = (zero if a is None else a) + (zero if b is None else b)
            whole = _settled_at_infinities(whole, values, errors, made)
            other = values[1] if op.name == "add" else -values[1]
            return np.where(may_cancel(values[0], other, a, b), ANYTHING, whole)
        if op.name == "multiply":
            whole = _of_product(values, a, b)
            return _settled_at_infinities(whole, values, errors, made, is_product=True)
        if op.name in ("maximum", "minimum"):
            return b if a is None else a if b is None else np.maximum(a, b)
    if op.name == "select":
        return _selected(values, errors)
    worst = _at_corners(node, op, call, values, errors, made)
    if op.name == "cast" and is_float and made.dtype.kind in "iu" and errors[0] is not None:
        return np.where(_may_leave_range(call, values[0], errors[0]), ANYTHING, worst)
    return worst


def _may_leave_range(call: Call, x: Array, error: Reals) -> Array:
    """Mark floats that rounding may carry beyond the integers that they become.

    Such a conversion is undefined in C++ and Metal.
    """
    limits = np.iinfo(call.dtype("dtype").numpy)
    low, high = np.trunc(x - error), np.trunc(x + error)
    return np.asarray((low < float(limits.min)) | (high >= float(limits.max) + 1))


def may_cancel(x: Array, y: Array, a: Reals | None, b: Reals | None) -> Array:
    """Mark sums of two infinities of opposite signs, one of which at least is an overflow."""
    overflows = [np.isinf(e) if e is not None else np.zeros(()) for e in (a, b)]
    infinite = [np.isinf(v) | (o > 0) for v, o in zip((x, y), overflows, strict=True)]
    some = (overflows[0] > 0) | (overflows[1] > 0)
    return np.asarray(some & infinite[0] & infinite[1] & (np.sign(x) != np.sign(y)))


def _settled_at_infinities(
    error: Reals,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    *,
    is_product: bool = False,
) -> Reals:
    """Let infinities and NaN stand that follow from operands which are certain."""
    finite = np.isfinite(made)
    if finite.all():
        return error
    unknown = np.zeros(made.shape, bool)
    for value, own in zip(values, errors, strict=True):
        if own is not None:
            unknown |= np.isnan(own)
            if is_product:
                # What may be zero, or of the other sign, decides what an infinity times it is.
                unknown |= (np.abs(value) <= own) & (own != 0)
    for value, own in zip(values, errors, strict=True):
        certain = np.isnan(value)
        unknown &= ~(certain if own is None else certain & ~np.isnan(own))
    return np.where(finite, error, np.where(unknown, ANYTHING, 0.0))


def _of_product(values: Sequence[Array], a: Reals | None, b: Reals | None) -> Reals:
    x, y = np.abs(values[0]), np.abs(values[1])
    if b is None:
        assert a is not None
        return a * y
    if a is None:
        return b * x
    return a * y + b * x + a * b


def _selected(values: Sequence[Array], errors: Sequence[Reals | None]) -> Reals:
    condition, taken, other = values
    flip, a, b = errors
    zero = np.zeros(condition.shape)
    first, second = zero if a is None else a, zero if b is None else b
    kept = np.where(condition, first, second)
    if flip is None:
        return kept
    gap = np.abs(taken.astype(np.float64) - other)
    # An infinite error says that a result may overflow; the other arm may be any number.
    gap = np.where(np.isinf(gap), ANYTHING, gap)
    apart = np.where(taken == other, 0.0, gap) + np.maximum(first, second)
    return np.where(flip == 0, kept, apart)


def _at_corners(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
) -> Reals:
    """Evaluate the op where it may go furthest; equal operands move together.

    That is at the ends of what each operand may be, or within: see `farthest_inside`.
    """
    assert op.meaning is not None
    moving: dict[int, tuple[Array, Array]] = {}
    for value, array, error in zip(node.inputs, values, errors, strict=True):
        if error is not None and value not in moving:
            moving[value] = _ends(array, error)
    worst = np.zeros(made.shape)
    unknown = np.zeros(made.shape, bool)
    for error in errors:
        if error is not None:
            unknown |= np.broadcast_to(np.isnan(error), made.shape)
    for corner in itertools.islice(itertools.product((0, 1), repeat=len(moving)), _MOST_CORNERS):
        side = dict(zip(moving, corner, strict=True))
        arrays = [
            moving[v][side[v]] if v in moving else a
            for v, a in zip(node.inputs, values, strict=True)
        ]
        moved = np.asarray(op.meaning(call, *arrays))
        worst = np.fmax(worst, distance_of(moved, made))
        unknown |= np.isnan(worst)
        if made.dtype.kind == "f":
            unknown |= np.isnan(moved) != np.isnan(made)
    inside = farthest_inside(op, values, errors, made)
    if inside is not None:
        unknown |= np.isnan(inside)
        worst = np.fmax(worst, inside)
    return np.where(unknown, ANYTHING, worst)


def _ends(array: Array, error: Reals) -> tuple[Array, Array]:
    if array.dtype.kind == "b":
        return array, np.where(error > 0, ~array.astype(bool), array)
    if array.dtype.kind in "iu":
        step = np.where(np.isfinite(error), error, 0).astype(array.dtype)
        return array - step, array + step
    overflows = np.isinf(error)
    low: Array = np.where(overflows, array, array - error)
    high: Array = np.where(overflows, np.copysign(np.inf, array), array + error)
    return low, high


def distance_of(moved: Array, made: Array) -> Reals:
    """Return how far a result moved; equal infinities and NaN have not."""
    if made.dtype.kind == "b":
        return np.asarray((moved != made).astype(np.float64))
    away = np.abs(moved.astype(np.float64) - made.astype(np.float64))
    same = (moved == made) | ((moved != moved) & (made != made))
    return np.asarray(np.where(same, 0.0, away))
