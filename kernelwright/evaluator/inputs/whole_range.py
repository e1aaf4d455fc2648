"""Integers anywhere in their type: its ends, powers of two, and large ones that lie close."""

from collections.abc import Sequence

import numpy as np

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import Random
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.executable import Array

_SHARES = {Distribution.WIDE: 2, Distribution.MIXED: 4, Distribution.TIED: 4}
"""In which kinds one element of so many is one that breaks arithmetic."""
_CLOSE = frozenset((Distribution.OFFSET, Distribution.SHIFTED))
"""Kinds in which all integers are large and lie close."""
_FEWEST_ROWS = 6
_ROW_SHARE = 16
"""One row of so many holds the ends, and one integers that lie close, where rows are mixed."""
_LEAST_FAR = {4: 26, 8: 55}
"""Bits, by bytes: beyond them neighbours are one number as floats."""
_LEVELS = 3
"""How far the closest go apart: most meet their like, and their neighbours."""
_SMALL = 8


def place_anywhere(
    arrays: Sequence[Array], distribution: Distribution, random: Random, *, is_full: bool
) -> None:
    """Change inputs of one type in place: what stands at one index of them meets.

    `is_full` says that their least integer may stand there too.
    """
    share = _SHARES.get(distribution)
    if distribution in _CLOSE:
        _place_close(arrays, np.arange(arrays[0].size), random)
    elif distribution is Distribution.TIED:
        ends = _ends(arrays[0].dtype, is_full=is_full)[:2]
        for array in arrays:
            array[...] = random.choice(ends, array.shape)
        _place_pairs(arrays, random.permutation(arrays[0].size)[::4], is_full=is_full)
    elif distribution is Distribution.LATTICE:
        _place_small(arrays, random)
    elif distribution is Distribution.SIGNS:
        _place_great(arrays, random)
    elif share is not None:
        order = random.permutation(arrays[0].size)
        first, second, third = np.array_split(order[: arrays[0].size // share], 3)
        _place_powers(arrays, first, random, is_full=is_full)
        _place_close(arrays, second, random)
        _place_pairs(arrays, third, is_full=is_full)
        if distribution is Distribution.MIXED:
            _place_rows(arrays, random, is_full=is_full)


def _place_rows(arrays: Sequence[Array], random: Random, *, is_full: bool) -> None:
    first = arrays[0]
    length = first.shape[-1] if first.ndim else 1
    count = first.size // max(length, 1)
    if first.ndim < 2 or count < _FEWEST_ROWS:
        return
    part = max(count // _ROW_SHARE, 1)
    chosen = random.permutation(count - 1)[: 2 * part]
    places = chosen[:, None] * length + np.arange(length)
    for row in places[:part]:
        _place_close(arrays, row, random)
    ends = _ends(first.dtype, is_full=is_full)[:2]
    far = places[part:].reshape(-1)
    for array in arrays:
        array.reshape(-1)[far] = random.choice(ends, far.size)


def _ends(dtype: np.dtype[np.generic], *, is_full: bool) -> Array:
    """Return the least and the greatest integer first, then numbers beside them and zero."""
    limits = np.iinfo(str(dtype))
    least = limits.min if is_full or not limits.min else limits.min + 1
    numbers = [least, limits.max, least + 1, limits.max - 1, limits.max // 2 + 1, 0, 1, 2]
    return np.array([*numbers, *((-1, -2) if limits.min else (3, 4))], dtype)


def _place_pairs(arrays: Sequence[Array], places: Array, *, is_full: bool) -> None:
    """Let the ends of all inputs meet, each with each, those of the type itself first."""
    ends = _ends(arrays[0].dtype, is_full=is_full)
    number = np.arange(len(places))
    # By shells, so that few places hold the pairs of the first few.
    pairs = sorted(np.ndindex(len(ends), len(ends)), key=lambda pair: (max(pair), pair))
    table: Array = np.array(pairs)
    for turn, array in enumerate(arrays):
        column = table[number % len(table), turn % 2]
        array.reshape(-1)[places] = ends[(column + turn // 2) % len(ends)]


def _place_powers(arrays: Sequence[Array], places: Array, random: Random, *, is_full: bool) -> None:
    """Put powers of two in, and their neighbours, of either sign, the largest always."""
    dtype = arrays[0].dtype
    limits = np.iinfo(str(dtype))
    least = int(limits.min) + (0 if is_full or not limits.min else 1)
    powers = [1 << bit for bit in reversed(range(8 * dtype.itemsize))]
    beside = [s * p + d for d in (0, -1, 1) for p in powers for s in (1, -1)]
    numbers = np.array([n for n in beside if least <= n <= limits.max], dtype)
    for array in arrays:
        array.reshape(-1)[places] = random.permutation(np.resize(numbers, len(places)))


def _place_close(arrays: Sequence[Array], places: Array, random: Random) -> None:
    """Put integers in that a float holds for one, and long ones whose lower halves are alike."""
    dtype = arrays[0].dtype
    limits, bits = np.iinfo(str(dtype)), 8 * dtype.itemsize
    least = 1 << _LEAST_FAR.get(dtype.itemsize, bits - 3)
    base = int(random.integers(least, int(limits.max) // 8 * 7, dtype=np.uint64))
    if limits.min and random.integers(2):
        base = -base
    apart = (0, 1 << 33) if dtype.itemsize == 8 else (0,)
    numbers = np.array([base + n + far for far in apart for n in range(_LEVELS)], dtype)
    for array in arrays:
        array.reshape(-1)[places] = random.choice(numbers, len(places))


def _place_great(arrays: Sequence[Array], random: Random) -> None:
    """Let all integers be of the greatest quarter: long sums of them leave what a float holds."""
    dtype = arrays[0].dtype
    greatest = int(np.iinfo(str(dtype)).max)
    for array in arrays:
        array[...] = random.integers(greatest // 4 * 3, greatest, array.shape, dtype, endpoint=True)


def _place_small(arrays: Sequence[Array], random: Random) -> None:
    """Let every pair of the smallest integers meet, as far as there is room."""
    least = -_SMALL if np.iinfo(str(arrays[0].dtype)).min else 0
    numbers = np.arange(least, least + 2 * _SMALL + 1).astype(arrays[0].dtype)
    order = random.permutation(arrays[0].size)
    for turn, array in enumerate(arrays):
        place = order if turn < 2 else random.permutation(order)
        number = np.arange(order.size) // len(numbers) ** (turn % 2)
        array.reshape(-1)[place] = numbers[number % len(numbers)]


def groups_of(types: Sequence[TensorType], places: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the places of inputs by type, in order."""
    kinds = dict.fromkeys(types[place] for place in places)
    return tuple(tuple(p for p in places if types[p] == kind) for kind in kinds)
