"""What stands for the answers that MLX leaves undefined, where somebody has to go on."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kernelwright.ir.ops import op_named
from kernelwright.ir.ops.index_range import IndexRange
from kernelwright.ir.ops.op import Array, Call, Kind

Clamp = Literal["nearest", "first"]
"""Which element stands for all outside of an array; of a range, `first` is the other end."""


def clamped(op: str, call: Call, arrays: Sequence[Array], clamp: Clamp) -> list[Array]:
    """Return an op's arrays, indices and what becomes an integer moved within their range."""
    record = op_named(op)
    if record.behaviour.converts:
        return [_convertible(call, arrays[0], clamp)]
    moved = list(arrays)
    if record.kind is Kind.INDEXING and record.index_ranges is not None:
        for place, known in record.index_ranges(call).items():
            moved[place] = _within(arrays[place], known, clamp)
    return moved


def _within(index: Array, known: IndexRange, clamp: Clamp) -> Array:
    lowest = 0 if index.dtype.kind == "u" else known.lowest
    highest = np.reshape(known.highest, index.shape if len(known.highest) > 1 else ())
    nearest = np.clip(index, lowest, highest)
    return nearest if clamp == "nearest" else np.where(index == nearest, index, 0)


def _convertible(call: Call, x: Array, clamp: Clamp) -> Array:
    """Move floats into the range of the integer that they become: C++ cuts, a GPU saturates."""
    target = call.dtype("dtype")
    if not target.is_integer or x.dtype.kind != "f":
        return x
    limits = np.iinfo(target.numpy)
    low, high = float(limits.min), float(limits.max)
    if high > limits.max:
        # The largest integer of 64 bits is no float; the one below it is the nearest.
        high = np.nextafter(high, 0)
    nearest = np.clip(np.where(np.isnan(x), 0.0, x), low, high)
    if clamp == "nearest":
        return nearest
    is_inside = np.trunc(x) == np.trunc(nearest)
    return np.where(is_inside, x, np.where(x > high, low, high))
