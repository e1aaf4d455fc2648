"""What products of many factors lose: by rounding, and beyond the ends of float32 on the way."""

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

Flags = NDArray[np.bool_]


def error_of_prod(op: Op, call: Call, x: Reals, error: Reals | None, made: Array) -> Reals | None:
    """Bound the error of a product over axes."""
    terms = x.size // max(made.size, 1)
    if terms <= 1:
        return error
    axes = call.integers("axes")
    size = np.abs(x)
    wide = size * (1 + UNIT) + (0.0 if error is None else error)
    wide_product = np.prod(wide, axis=axes, keepdims=True)
    lost = np.asarray(wide_product - np.prod(size, axis=axes, keepdims=True))
    rows = np.moveaxis(size, axes, tuple(range(-len(axes), 0))).reshape(-1, terms)
    underflows, overflows = (flags[:, -1].reshape(lost.shape) for flags in _left(rows, -1))
    met = np.prod(_is_number(x, error), axis=axes, keepdims=True)
    return np.where(met, _through_ends(lost, made, underflows, overflows), 0.0)


def error_of_running_products(
    op: Op, call: Call, x: Array, error: Reals | None, made: Array
) -> Reals:
    """Bound the error of each running product."""
    assert op.meaning is not None
    size = np.abs(x)
    wide = size * (1 + UNIT) + (0.0 if error is None else error)
    lost = np.asarray(op.meaning(call, wide)) - np.asarray(op.meaning(call, size))
    axis = call.integer("axis")
    is_reversed = bool(call.attributes.get("reverse", False))
    turned = np.flip(size, axis) if is_reversed else size
    ends = (np.flip(flags, axis) if is_reversed else flags for flags in _left(turned, axis))
    met = np.asarray(op.meaning(call, _is_number(x, error)))
    return np.where(met > 0, _through_ends(lost, made, *ends), 0.0)


def _is_number(x: Array, error: Reals | None) -> Reals:
    """Return 0 for each factor that is NaN for sure, which no other factor changes, else 1."""
    is_open = np.isnan(error) if error is not None else np.zeros(x.shape, bool)
    return np.where(np.isnan(x) & ~is_open, 0.0, 1.0)


def _through_ends(lost: Reals, made: Array, underflows: Flags, overflows: Flags) -> Reals:
    """Let what became denormal on the way be flushed, and what left float32 be lost."""
    flushed = lost + np.where(underflows & np.isfinite(made), np.abs(made), 0.0)
    return np.where(overflows & (np.abs(made) <= FLOAT32.largest), np.inf, flushed)


def _left(size: Reals, axis: int) -> tuple[Flags, Flags]:
    """Say from which place on a run of factors has left the normal numbers, at either end.

    Factors may be joined one after the other or in runs, as a tree joins them.
    """
    plain = np.where((size > 0) & np.isfinite(size), size, 1.0)
    total = np.cumsum(np.log2(plain), axis=axis)
    before = np.concatenate([np.zeros_like(total.take([0], axis)), total], axis=axis)
    before = before.take(range(total.shape[axis]), axis)
    least = total - np.maximum.accumulate(before, axis)
    most = total - np.minimum.accumulate(before, axis)
    return (
        np.minimum.accumulate(least, axis) < np.log2(FLOAT32.least_normal),
        np.maximum.accumulate(most, axis) > np.log2(FLOAT32.largest),
    )
