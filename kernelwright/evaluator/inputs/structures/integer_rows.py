"""Rows of integers as users have them: indices in order, positions, segments, bit patterns."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random

Integers = NDArray[np.int64]
IntegerDraw = Callable[[int, int, Random], Integers]
"""Draws a row of `length` numbers from 0 to `size` - 1, both given, to be taken modulo `size`."""


def _identity(length: int, size: int, random: Random) -> Integers:
    return np.arange(length)


def _reversed(length: int, size: int, random: Random) -> Integers:
    top = length - 1 + int(random.integers(0, max(size - length, 0) + 1))
    return top - np.arange(length)


def _consecutive(length: int, size: int, random: Random) -> Integers:
    return int(random.integers(0, max(size - length, 0) + 1)) + np.arange(length)


def _second(length: int, size: int, random: Random) -> Integers:
    return 2 * np.arange(length)


def _strided(length: int, size: int, random: Random) -> Integers:
    return int(random.choice((3, 4, 5, 7, 8))) * np.arange(length)


def _strictly_sorted(length: int, size: int, random: Random) -> Integers:
    return np.sort(_distinct(length, size, random))


def _sorted(length: int, size: int, random: Random) -> Integers:
    return np.sort(random.integers(0, size, length))


def _falling(length: int, size: int, random: Random) -> Integers:
    return _sorted(length, size, random)[::-1].copy()


def _distinct(length: int, size: int, random: Random) -> Integers:
    if size > 4 * length:
        gaps = np.cumsum(random.integers(1, max(size // length, 2), length))
        return np.asarray(random.permutation(gaps - 1))
    return np.resize(random.permutation(size), length)


def _even(length: int, size: int, random: Random) -> Integers:
    return 2 * random.integers(0, max((size + 1) // 2, 1), length)


def _odd(length: int, size: int, random: Random) -> Integers:
    return 2 * random.integers(0, max(size // 2, 1), length) + int(size > 1)


def _swapped_pairs(length: int, size: int, random: Random) -> Integers:
    return np.asarray(np.arange(length) ^ 1)


def _alternating(length: int, size: int, random: Random) -> Integers:
    first = int(random.integers(0, size))
    return np.resize([first, first + 1 + 2 * int(random.integers(0, max(size // 2, 1)))], length)


def _binary(length: int, size: int, random: Random) -> Integers:
    return random.integers(0, min(2, size), length)


def _pairs(length: int, size: int, random: Random) -> Integers:
    return np.arange(length) // 2


def _segments(length: int, size: int, random: Random) -> Integers:
    return np.arange(length) * min(size, 8) // max(length, 1)


def _rolled(length: int, size: int, random: Random) -> Integers:
    return np.asarray(np.roll(np.arange(length), int(random.integers(1, max(length, 2)))))


def _all_but_one(length: int, size: int, random: Random) -> Integers:
    row = np.full(length, int(random.integers(0, size)))
    row[int(random.integers(0, length))] += 1
    return row


def _periodic(length: int, size: int, random: Random) -> Integers:
    return np.arange(length) % min(size, int(random.choice((3, 4, 8))))


INTEGER_ROWS: tuple[IntegerDraw, ...] = (
    *(_identity, _reversed, _consecutive, _second, _strided, _strictly_sorted, _sorted, _falling),
    *(_distinct, _even, _odd, _swapped_pairs, _alternating, _binary, _pairs, _segments, _rolled),
    *(_all_but_one, _periodic),
)

_PATTERNS = (0x88, 0x55, 0x11, 0xAA, 0x00, 0xFF, 0x0F, 0xF0, 0x77, 0x80, 0x01, 0x7F)


def patterns(count: int, length: int, dtype: np.dtype[np.generic], random: Random) -> Integers:
    """Draw rows of words whose bits repeat: each row one pattern, runs of ones, or a ramp."""
    itemsize = dtype.itemsize
    rows = np.empty((count, length), np.uint64)
    start = int(random.integers(len(_PATTERNS) + 2))
    for number, row in enumerate(rows):
        turn = (start + number) % (len(_PATTERNS) + 2)
        if turn < len(_PATTERNS):
            row[:] = int.from_bytes(bytes([_PATTERNS[turn]]) * itemsize, "little")
        elif turn == len(_PATTERNS):
            row[:] = np.arange(length)
        else:
            bits = 8 * itemsize
            widths = random.integers(1, bits, length)
            ones = (np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1)
            row[:] = ones << random.integers(0, bits - widths + 1).astype(np.uint64)
    return rows.astype(np.int64)
