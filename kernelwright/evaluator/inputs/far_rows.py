"""Rows that hold a NaN and a number far from zero, and rows that reach for the ends of a format."""

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph.dtype import Dtype

Values = NDArray[np.float32]
Random = np.random.Generator
_LANES = 32
"""Of a simdgroup."""
_POWER_SHARE = 0.75
"""Of pairs, so many lie as far apart as vectors of lanes are long."""
_PAIR_TURNS = 4
"""Of so many pairs of rows, one has its numbers next to each other."""
_FAR_KINDS, _SIGN_SHARE = 5, 4
"""How many kinds of far numbers there are, an odd number so that each meets rows of both orders;
of how many finite ones one is negative."""
_RUN_SHARE = 0.6
"""Of rows, so many are far up to an end of them: a block starts with it, wherever that is."""
_HUNDREDS = (7.0, 10.0)
"""Powers of two beyond what ordinary data holds, in every format."""
MOST_ROOM = 24.0
"""Powers of two: orders of scaling and summing that are sound need no more."""
_NEAR_END = (MOST_ROOM + 0.3, MOST_ROOM + 4.0)
"""Powers of two below the end, with room for all tasks."""
_NEAR_ROOT = (64.3 + MOST_ROOM / 3, 69.0 + MOST_ROOM / 3)
"""Powers of two below the end: a sum of squares has room."""
_NEAR_HALFS_END, _NEAR_HALFS_ROOT = (1.3, 5.0), (4.6, 5.0)
"""The same of halves, which are scaled and summed as floats."""
_FARTHEST = 70.0
_NEAR_LEAST = (0.0, 6.0)
"""Powers of two above the least normal number, where a factor below one leaves fewer bits."""
_LEAST_TURN = 3
_FIRST_TURNS = (0, 0, 1, _LEAST_TURN)
"""Where rows are too few for each turn."""


def limits_of(dtype: Dtype) -> tuple[float, float]:
    """Return the largest number of a format and its smallest normal one, as float32 holds them."""
    if dtype is Dtype.FLOAT16:
        return 65504.0, 2.0**-14
    if dtype is Dtype.BFLOAT16:
        return 2.0**127 * (2 - 2.0**-7), 2.0**-126
    return float(np.finfo(np.float32).max), 2.0**-126


def lane_distance(length: int, random: Random) -> int:
    """Draw how far apart two elements of a row lie that one lane reads, one after the other."""
    multiples = max((length - 1) // _LANES, 1)
    power = 1 << int(random.integers(multiples.bit_length()))
    apart = _LANES * (power if random.random() < _POWER_SHARE else multiples)
    return apart if apart < length else min(1, length - 1)


def place_beside_nan(values: Values, dtype: Dtype, random: Random) -> None:
    """Put a NaN into each row, and before or behind it numbers far from zero.

    They lie as far apart as a lane or a block takes its steps, each first in every second row. It
    is one number, or all from there to the end of the row on its side; in the hundreds, close to
    the end of the format, or infinite. One of two rows has a NaN where the other is far. Ten rows
    hold each kind before a NaN, and behind one.
    """
    count, length = values.shape
    kind = int(random.integers(_FAR_KINDS))
    for first in range(0, count, 2):
        pair = values[first : first + 2]
        is_near = first // 2 % _PAIR_TURNS == _PAIR_TURNS - 1
        apart = min(1, length - 1) if is_near else lane_distance(length, random)
        shared = int(random.integers(length - apart))
        other = shared + apart
        for number, row in enumerate(pair):
            far, nan = (other, shared) if number else (shared, other)
            value = _far_number((kind + first + number) % _FAR_KINDS, dtype, random)
            beyond = slice(far, None) if far > nan else slice(far + 1)
            row[beyond if random.random() < _RUN_SHARE else far] = value
            row[nan] = np.nan if random.integers(2) else -np.nan


def _far_number(kind: int, dtype: Dtype, random: Random) -> np.float32:
    """Draw a number in the hundreds, one near the end of the format, or an infinity."""
    sign = 1 if random.integers(_SIGN_SHARE) else -1
    if kind == 0:
        return np.float32(sign * 2.0 ** random.uniform(*_HUNDREDS))
    if kind == 1:
        below = random.uniform(0.0, 4.0 if dtype is Dtype.FLOAT16 else 24.0)
        return np.float32(sign * limits_of(dtype)[0] / 2.0**below)
    is_negative = random.integers(2) if kind == _FAR_KINDS - 1 else kind % 2
    return np.float32(-np.inf if is_negative else np.inf)


def place_near_ends(values: Values, dtype: Dtype, random: Random) -> None:
    """Let rows hold one number near the end of the format, or all of them near its other end.

    How many powers of two below the end, or above the least normal number, hangs on the row: in
    the first ones a large factor overflows, further on squares do.
    """
    count, length = values.shape
    largest, smallest = limits_of(dtype)
    if dtype is Dtype.FLOAT16:
        spans = (_NEAR_HALFS_END, _NEAR_HALFS_ROOT, (0.0, _NEAR_HALFS_END[1]), _NEAR_LEAST)
    else:
        spans = (_NEAR_END, _NEAR_ROOT, (_NEAR_END[0], _FARTHEST), _NEAR_LEAST)
    first = 0 if count >= len(spans) else int(random.choice(_FIRST_TURNS))
    for number, row in enumerate(values, first):
        turn = number % len(spans)
        steps = 2.0 ** random.uniform(*spans[turn])
        if turn == _LEAST_TURN:
            signs = np.where(random.integers(0, 2, length) > 0, 1, -1)
            spread = signs * (1 + random.random(length))
            row[...] = (spread * (smallest * steps)).astype(np.float32)
            continue
        if random.integers(2):
            row[...] = 0.0
        sign = 1 if random.integers(2) else -1
        row[int(random.integers(length))] = np.float32(sign * largest / steps)


def move_to_ends(values: Values, dtype: Dtype, room: float) -> None:
    """Move what is near the format's end closer to it, where a task needs less than all room.

    Numbers whose squares are near the end are moved by a third as much. Halves are near it already.
    """
    spare = MOST_ROOM - room
    if dtype is Dtype.FLOAT16 or spare <= 0:
        return
    sizes, largest = np.abs(values), limits_of(dtype)[0]
    for (near, far), powers in ((_NEAR_END, spare), (_NEAR_ROOT, spare / 3)):
        is_near = (sizes <= largest / 2.0**near) & (sizes >= largest / 2.0**far)
        values[is_near] *= np.float32(2.0**powers)
