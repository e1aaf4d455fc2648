"""What stands for the answers that MLX leaves undefined, where somebody has to go on."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kernelwright.ir.ops.op import Array, Call

Clamp = Literal["nearest", "first"]
"""Which element stands for all outside of an array; of a range, `first` is the other end."""
_WITHIN = frozenset(("gather", "gather_axis", "scatter", "scatter_axis"))
"""Ops whose indices lie within their first array."""
_WINDOWS = frozenset(("dynamic_slice", "dynamic_slice_update"))
"""Ops whose window does, wherever it starts."""


def clamped(op: str, call: Call, arrays: Sequence[Array], clamp: Clamp) -> list[Array]:
    """Return an op's arrays, indices and what becomes an integer moved within their range."""
    if op == "cast":
        return [_convertible(call, arrays[0], clamp)]
    if op in _WINDOWS:
        return _window(call, arrays, clamp)
    if op not in _WITHIN:
        return list(arrays)
    x, *rest = arrays
    updates = rest.pop() if op.startswith("scatter") else None
    if op.endswith("_axis"):
        axes, sizes = (call.integer("axis"),), (1,) * x.ndim
    else:
        axes = call.integers("axes")
        sizes = call.integers("slice_sizes") if updates is None else updates.shape[-x.ndim :]
    lows = [0 if i.dtype.kind == "u" else -x.shape[a] for i, a in zip(rest, axes, strict=True)]
    highs = [x.shape[axis] - sizes[axis] for axis in axes]
    moved = [np.clip(i, low, high) for i, low, high in zip(rest, lows, highs, strict=True)]
    if clamp == "first":
        moved = [np.where(i == m, i, 0) for i, m in zip(rest, moved, strict=True)]
    return [x, *moved] if updates is None else [x, *moved, updates]


def _window(call: Call, arrays: Sequence[Array], clamp: Clamp) -> list[Array]:
    """Move where a window starts to where all of it lies within its array."""
    *read, start = arrays
    window = read[1].shape if len(read) > 1 else call.integers("shape")
    highs = [read[0].shape[axis] - window[axis] for axis in call.integers("axes")]
    moved = np.clip(start, 0, np.reshape(highs, start.shape))
    return [*read, moved if clamp == "nearest" else np.where(start == moved, start, 0)]


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
