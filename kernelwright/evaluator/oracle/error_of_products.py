"""What products of many factors lose: by rounding, and beyond the ends of float32 on the way."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals
from kernelwright.evaluator.oracle.tracked import ANYTHING
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class _Ends:
    """Where runs of factors leave the normal numbers, up to each place."""

    underflows: Flags
    overflows: Flags
    rounded: Reals
    """What roundings to steps of denormals may cost: each is off by half of the least number, times
    all factors outside its run. A factor above one half keeps the least number as it is."""

    def last(self, shape: tuple[int, ...]) -> "_Ends":
        """Return those of whole rows."""
        return _Ends(
            self.underflows[:, -1].reshape(shape),
            self.overflows[:, -1].reshape(shape),
            self.rounded[:, -1].reshape(shape),
        )

    def flipped(self, axis: int) -> "_Ends":
        """Return those of rows that are read from their ends."""
        return _Ends(
            np.flip(self.underflows, axis),
            np.flip(self.overflows, axis),
            np.flip(self.rounded, axis),
        )


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
    ends = _ends_of(rows, -1).last(lost.shape)
    met = np.prod(_is_number(x, error), axis=axes, keepdims=True)
    return np.where(met, _through_ends(lost, made, ends), 0.0)


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
    ends = _ends_of(turned, axis)
    ends = ends.flipped(axis) if is_reversed else ends
    met = np.asarray(op.meaning(call, _is_number(x, error)))
    return np.where(met > 0, _through_ends(lost, made, ends), 0.0)


def _is_number(x: Array, error: Reals | None) -> Reals:
    """Return 0 for each factor that is NaN for sure, which no other factor changes, else 1."""
    is_open = np.isnan(error) if error is not None else np.zeros(x.shape, bool)
    return np.where(np.isnan(x) & ~is_open, 0.0, 1.0)


def _ends_of(size: Reals, axis: int) -> _Ends:
    """Say from which place on a run of factors has left the normal numbers, at either end.

    Factors may be joined one after the other or in runs, as a tree joins them.
    """
    plain = np.where((size > 0) & np.isfinite(size), size, 1.0)
    total = np.cumsum(np.log2(plain), axis=axis)
    before = np.concatenate([np.zeros_like(total.take([0], axis)), total], axis=axis)
    before = before.take(range(total.shape[axis]), axis)
    least = np.minimum.accumulate(total - np.maximum.accumulate(before, axis), axis)
    most = np.maximum.accumulate(total - np.minimum.accumulate(before, axis), axis)
    is_zero = np.maximum.accumulate(size == 0, axis)
    steps = size.shape[axis] * np.exp2(total - least + np.log2(FLOAT32.least / 2))
    return _Ends(
        least < np.log2(FLOAT32.least_normal),
        most > np.log2(FLOAT32.largest),
        np.where(is_zero, 0.0, steps),
    )


def _through_ends(lost: Reals, made: Array, ends: _Ends) -> Reals:
    """Let what became denormal on the way be flushed or rounded, and what left float32 be lost."""
    size = np.abs(made)
    lost = np.where(ends.overflows & (size <= FLOAT32.largest), np.inf, lost)
    flushed = lost + size + ends.rounded
    # What was flushed stays zero, or is not a number times an infinity, where others overflow.
    flushed = np.where(flushed <= FLOAT32.largest, flushed, ANYTHING)
    return np.where(ends.underflows & ~np.isnan(made), flushed, lost)
