"""Rows of two inputs of one type that belong together: nearly equal, reordered, multiples."""

from collections.abc import Callable

import numpy as np

from kernelwright.evaluator.inputs.draw import Random
from kernelwright.metal.device.executable import Array

Relation = Callable[[Array, Array, Random], None]
"""Changes rows of two inputs in place, [rows, length], of the dtype that the program reads."""
_CANCELLING = (1, 2, 3, 5, 7, 31, 33, 37, 127, 131, 256, 257)
"""What a difference of one at the place before adds to a polynomial over a row."""
_FACTORS = (2.0, 0.5, -2.0, -8.0, 3.0, 4.0, -128.0)
_MANTISSA = {2: 7, 4: 23, 8: 52}
"""Bits of which the least can change in every format of so many bytes."""


def _equal(one: Array, other: Array, random: Random) -> None:
    other[...] = one


def _negated(one: Array, other: Array, random: Random) -> None:
    other[...] = np.negative(one) if one.dtype.kind != "u" else np.invert(one)


def _negated_half(one: Array, other: Array, random: Random) -> None:
    half = one.shape[1] // 2
    _negated(one[:, :half], other[:, :half], random)


def _multiple(one: Array, other: Array, random: Random) -> None:
    start = int(random.integers(len(_FACTORS)))
    for number in range(len(one)):
        factor = _FACTORS[(start + number) % len(_FACTORS)]
        if one.dtype.kind in "iu":
            other[number] = one[number] << np.array(1 + number % 3, one.dtype)
        else:
            other[number] = (one[number].astype(np.float32) * np.float32(factor)).astype(one.dtype)


def _doubled(one: Array, other: Array, random: Random) -> None:
    other[...] = np.add(one, one)


def _reversed(one: Array, other: Array, random: Random) -> None:
    other[...] = one[:, ::-1]


def _rolled(one: Array, other: Array, random: Random) -> None:
    other[0::2] = np.roll(one[0::2], 1, axis=1)
    other[1::2] = np.roll(one[1::2], -1, axis=1)


def _swapped(one: Array, other: Array, random: Random) -> None:
    other[...] = one
    length = one.shape[1]
    for number in range(len(one)):
        first = int(random.integers(length))
        second = (first + 1) % length if number % 2 else int(random.integers(length))
        other[number, [first, second]] = one[number, [second, first]]


def _bit(one: Array, other: Array, random: Random) -> None:
    """Flip one bit of one element: every bit of integers in turn, of floats those of the size."""
    other[...] = one
    bits = 8 * one.dtype.itemsize if one.dtype.kind in "iu" else _MANTISSA[one.dtype.itemsize]
    if one.dtype.name == "float16":
        bits = 10
    words = other.view(f"u{one.dtype.itemsize}")
    start = int(random.integers(bits))
    for number in range(len(one)):
        mask = np.array(1 << (start + number) % bits, words.dtype)
        words[number, int(random.integers(one.shape[1]))] ^= mask


def _one_step(one: Array, other: Array, random: Random) -> None:
    other[...] = one
    places = random.integers(0, one.shape[1], len(one))
    rows = np.arange(len(one))
    up = (np.arange(len(one)) % 2).astype(bool)
    step = np.ones((), one.dtype)
    other[rows, places] = np.where(
        up, np.add(one[rows, places], step), np.subtract(one[rows, places], step)
    )


def _shifted(one: Array, other: Array, random: Random) -> None:
    step = np.ones((), one.dtype)
    other[0::2] = np.add(one[0::2], step)
    other[1::2] = np.subtract(one[1::2], step)


def _cancelling(one: Array, other: Array, random: Random) -> None:
    other[...] = one
    length = one.shape[1]
    start = int(random.integers(2 * len(_CANCELLING)))
    step = np.ones((), one.dtype)
    for number, row in enumerate(other):
        turn = start + number
        place = int(random.integers(max(length - 1, 1)))
        by = np.array(_CANCELLING[turn % len(_CANCELLING)] % 128).astype(one.dtype)
        changes = ((np.subtract, step), (np.add, by)), ((np.add, step), (np.subtract, by))
        for offset, (change, size) in enumerate(changes[turn // len(_CANCELLING) % 2]):
            if place + offset < length:
                its = row[place + offset : place + offset + 1]
                its[...] = change(its, size)


def _opposed(one: Array, other: Array, random: Random) -> None:
    if one.dtype.kind != "u":
        one[...] = np.negative(np.abs(one))
        other[...] = np.abs(other)


def _sorted(one: Array, other: Array, random: Random) -> None:
    other[...] = np.sort(one, axis=1)


RELATIONS: tuple[Relation, ...] = (
    *(_bit, _equal, _swapped, _negated, _one_step, _doubled, _cancelling, _reversed, _rolled),
    *(_shifted, _multiple, _negated_half, _opposed, _sorted),
)


def relate(one: Array, other: Array, random: Random, only: int | None = None) -> None:
    """Give rows of two inputs, [rows, length], every relation in turn, or one of them."""
    start = int(random.integers(len(RELATIONS)))
    if not one.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        for turn, relation in enumerate(RELATIONS):
            if only is not None and turn != only % len(RELATIONS):
                continue
            first, step = ((turn - start) % len(RELATIONS), len(RELATIONS))
            rows = slice(None) if only is not None else slice(first, None, step)
            # A copy: rows of a slice must be contiguous for their bits to be viewed.
            mine, its = np.ascontiguousarray(one[rows]), np.ascontiguousarray(other[rows])
            if mine.size:
                relation(mine, its, random)
                one[rows], other[rows] = mine, its
