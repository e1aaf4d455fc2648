"""What errors do to results that depend on order alone: ranks, places of extremes, flags."""

from collections.abc import Sequence

import numpy as np

from kernelwright.evaluator.oracle.float_format import Reals
from kernelwright.evaluator.oracle.tracked import ANYTHING
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array


def error_of_flags(op: Op, call: Call, x: Array, error: Reals | None, made: Array) -> Reals | None:
    """Mark where all or any of some flags may come out the other way."""
    if error is None:
        return None
    function = np.all if op.name == "all" else np.any
    flips = np.zeros(made.shape)
    for side in (x.astype(bool) | (error != 0), x.astype(bool) & ~(error != 0)):
        flips = np.maximum(flips, function(side, axis=call.integers("axes"), keepdims=True) != made)
    return flips


def error_of_extreme_place(op: Op, call: Call, x: Array, error: Reals | None) -> Reals | None:
    """Leave a place open where another value may be the largest."""
    if error is None:
        return None
    axis, sign = call.integer("axis"), 1.0 if op.name == "argmax" else -1.0
    values = sign * x.astype(np.float64)
    least = np.max(values - error, axis=axis, keepdims=True)
    rivals = ~(values + error < least)
    open_ = (rivals.sum(axis=axis, keepdims=True) > 1) & (
        (rivals & (error != 0)).any(axis=axis, keepdims=True)
    )
    return np.where(open_, ANYTHING, 0.0)


def error_of_sort(
    op: Op, call: Call, values: Sequence[Array], errors: Sequence[Reals | None], made: Array
) -> Reals | None:
    """Bound the error of sorted values, and leave ranks open that errors may change."""
    if all(e is None for e in errors):
        return None
    axis, x = call.integer("axis"), values[0]
    error = np.zeros(x.shape) if errors[0] is None else errors[0]
    if made.dtype.kind == "f" or not op.behaviour.makes_places:
        worst = np.max(error, axis=axis, keepdims=True)
        return np.broadcast_to(worst, made.shape).copy()
    near = _near_neighbours(x.astype(np.float64), error, axis)
    return np.where(np.take_along_axis(near, made.astype(np.int64), axis), ANYTHING, 0.0)


def _near_neighbours(x: Reals, error: Reals, axis: int) -> Array:
    """Mark values whose rank their errors may change."""
    order = np.argsort(x, axis=axis, stable=True)
    low, high = (np.take_along_axis(a, order, axis) for a in (x - error, x + error))
    low, high = np.moveaxis(low, axis, -1), np.moveaxis(high, axis, -1)
    moves = np.moveaxis(np.take_along_axis(error, order, axis), axis, -1) != 0
    reach = np.maximum.accumulate(high, axis=-1)
    meets = ~(low[..., 1:] > reach[..., :-1]) & (moves[..., 1:] | moves[..., :-1])
    marks = np.zeros(low.shape, bool)
    marks[..., 1:] |= meets
    marks[..., :-1] |= meets
    found = np.zeros(x.shape, bool)
    np.put_along_axis(found, order, np.moveaxis(marks, -1, axis), axis)
    return found
