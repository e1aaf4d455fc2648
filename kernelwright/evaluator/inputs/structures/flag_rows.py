"""Rows of flags as masks have them: causal, windows, blocks, prefixes, stripes, exact counts."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random

Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
FlagDraw = Callable[[Places, Places, Random], Flags]
"""Draws rows of a mask from the number of each row, [rows, 1], and of each column, [columns]."""


def _lengths(row: Places, column: Places, random: Random) -> Places:
    return random.integers(1, len(column) + 1, row.shape)


def _window(row: Places, column: Places, random: Random) -> Flags:
    width = int(random.choice((2, 4, 8, 16)))
    return (column <= row) & (column + width > row)


def _sinks(row: Places, column: Places, random: Random) -> Flags:
    return _window(row, column, random) | (column < int(random.choice((1, 2, 4))))


def _eighth_window(row: Places, column: Places, random: Random) -> Flags:
    return (column <= row) & (column + 8 > row) | (column < 4 * int(random.integers(2)))


def _band(row: Places, column: Places, random: Random) -> Flags:
    return np.asarray(np.abs(column - row) <= int(random.choice((1, 2, 4, 8))))


def _blocks(row: Places, column: Places, random: Random) -> Flags:
    block = int(random.choice((4, 8, 16, 32)))
    return np.asarray(column // block == row // block)


def _prefix(row: Places, column: Places, random: Random) -> Flags:
    return np.asarray(column < _lengths(row, column, random))


def _suffix(row: Places, column: Places, random: Random) -> Flags:
    return np.asarray(column >= _lengths(row, column, random) - 1)


def _half(row: Places, column: Places, random: Random) -> Flags:
    first = column < len(column) // 2
    return np.asarray(np.where(random.integers(0, 2, row.shape) == 1, first, ~first))


def _short_end(row: Places, column: Places, random: Random) -> Flags:
    count = random.integers(1, 5, row.shape)
    at_start = random.integers(0, 2, row.shape) == 1
    return np.asarray(np.where(at_start, column >= count, column < len(column) - count))


def _even_prefix(row: Places, column: Places, random: Random) -> Flags:
    step = random.choice((8, 16, 32, 64), row.shape)
    return np.asarray(column < step * np.maximum(_lengths(row, column, random) // step, 1))


def _hole(row: Places, column: Places, random: Random) -> Flags:
    length = len(column)
    return np.repeat(((column < length // 4) | (column >= length // 2))[None], len(row), axis=0)


def _random_hole(row: Places, column: Places, random: Random) -> Flags:
    ends = np.sort(random.integers(0, len(column) + 1, (len(row), 2)), axis=1)
    return (column < ends[:, :1]) | (column >= ends[:, 1:])


def _checkerboard(row: Places, column: Places, random: Random) -> Flags:
    return np.asarray((row + column) % 2 == int(random.integers(2)))


def _stripes(row: Places, column: Places, random: Random) -> Flags:
    return np.asarray((column % 2 == 0) ^ (random.integers(0, 2, row.shape) == 1))


def _few(row: Places, column: Places, random: Random) -> Flags:
    flags = np.zeros((len(row), len(column)), np.bool_)
    for number, one in enumerate(flags, int(random.integers(1 << 10))):
        one[random.permutation(len(column))[: 1 + number % 8]] = True
    return flags


def _two_or_three(row: Places, column: Places, random: Random) -> Flags:
    flags = np.zeros((len(row), len(column)), np.bool_)
    for number, one in enumerate(flags, int(random.integers(1 << 10))):
        one[random.permutation(len(column))[: 2 + number % 2]] = True
    return flags


def _all_but_few(row: Places, column: Places, random: Random) -> Flags:
    return ~_few(row, column, random)


def _run(row: Places, column: Places, random: Random) -> Flags:
    width = random.choice((2, 3, 4, 8, 8, 16, 32), row.shape)
    start = random.integers(0, len(column), row.shape)
    start = np.where(random.integers(0, 2, row.shape) == 1, start // width * width, start)
    return np.asarray((column >= start) & (column < start + width))


def _first(row: Places, column: Places, random: Random) -> Flags:
    """Set the first ones, of numbers that go through all that there are."""
    start = int(random.integers(0, len(column)))
    counts = (start + np.arange(len(row))[:, None]) % (len(column) + 1)
    return np.asarray(column < counts)


FLAG_ROWS: tuple[FlagDraw, ...] = (
    lambda row, column, random: np.asarray(column <= row),
    lambda row, column, random: np.asarray(column >= row),
    lambda row, column, random: np.asarray(column > row),
    *(_window, _eighth_window, _sinks, _band, _blocks, _prefix, _suffix, _half, _short_end),
    *(_even_prefix, _hole, _random_hole, _checkerboard, _stripes, _few, _two_or_three),
    *(_all_but_few, _run, _first),
)


def flag_rows(
    shape: tuple[int, ...], random: Random, structure: int | None, first: int = 0
) -> Flags:
    """Draw a mask whose rows have one structure, or each the next from the `first` on."""
    columns = shape[-1]
    count = int(np.prod(shape[:-1]))
    height = shape[-2] if len(shape) > 1 else 1
    # The newest query sees all keys, where they are more.
    shift = max(columns - height, 0) * int(random.integers(2))
    row = (np.arange(count) % height)[:, None] + shift
    column = np.arange(columns)
    flags = np.empty((count, columns), np.bool_)
    for turn, draw in enumerate(FLAG_ROWS):
        if structure is None:
            places = np.arange(count)[(np.arange(count) + first) % len(FLAG_ROWS) == turn]
        else:
            places = np.arange(count) if structure % len(FLAG_ROWS) == turn else np.arange(0)
        if len(places):
            flags[places] = draw(row[places], column, random)
    return flags.reshape(shape)
