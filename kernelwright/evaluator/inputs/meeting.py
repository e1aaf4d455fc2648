"""Two inputs at one place: equal, opposite, one step apart, and every pair of special values."""

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random, Values
from kernelwright.evaluator.inputs.far_rows import limits_of
from kernelwright.ir.graph.dtype import Dtype

_KINDS = 5
_HIDDEN_KINDS = 4


def special_values(dtype: Dtype) -> NDArray[np.float32]:
    """Return the numbers that break arithmetic in a format."""
    largest, smallest = limits_of(dtype)
    numbers = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, largest, -largest, smallest)
    return np.array((*numbers, -np.nan), np.float32)


def meet(one: Values, other: Values, dtype: Dtype) -> None:
    """Change rows of two inputs of equal shape in place, [rows, length], by turns.

    Special pairs, equal, opposite, one step above and one below.
    """
    for turn in range(_KINDS):
        rows = slice(turn, None, _KINDS)
        if not one[rows].size:
            continue
        if turn == 0:
            _special_pairs(one, other, dtype)
        elif turn == 1:
            other[rows] = one[rows]
        elif turn == 2:
            other[rows] = -one[rows]
        else:
            other[rows] = _next(one[rows], dtype, up=turn == 3)


def _special_pairs(one: Values, other: Values, dtype: Dtype) -> None:
    values = special_values(dtype)
    rows = one[0::_KINDS]
    # Short rows take the pairs in turn, all of them where there is room.
    number = np.arange(rows.size, dtype=np.int64).reshape(rows.shape)
    one[0::_KINDS] = values[number % len(values)]
    other[0::_KINDS] = values[number // len(values) % len(values)]


def _next(values: Values, dtype: Dtype, *, up: bool) -> Values:
    """Return the neighbours in a format, away from zero or towards it."""
    if dtype.itemsize == 2:
        half = values.astype(dtype.numpy)
        short = half.view(np.uint16)
        near = np.where(up, short + np.uint16(1), short - np.uint16(1))
        is_zero = (short & np.uint16(0x7FFF)) == 0
        return np.asarray(np.where(is_zero, short, near).view(half.dtype)).astype(np.float32)
    wide = values.view(np.uint32)
    beside = np.where(up, wide + np.uint32(1), wide - np.uint32(1))
    return np.where((wide & np.uint32(0x7FFFFFFF)) == 0, wide, beside).view(np.float32)


def hide_behind(values: Values, is_open: NDArray[np.bool_], dtype: Dtype, random: Random) -> None:
    """Put NaN, infinities and huge numbers wherever a mask that broadcasts to them is not set."""
    hidden = ~np.broadcast_to(is_open, values.shape)
    hiding = np.array([np.nan, np.inf, -np.inf, limits_of(dtype)[0]], np.float32)
    values[hidden] = hiding[random.integers(0, _HIDDEN_KINDS, int(hidden.sum()), np.uint8)]
