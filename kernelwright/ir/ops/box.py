"""Boxes: the places of an array that a slice shows, a range per axis."""

import math
from collections.abc import Sequence

Box = tuple[range, ...]
"""The places that a slice shows, by axis."""


def whole_box(shape: Sequence[int]) -> Box:
    """Return the box of a whole array."""
    return tuple(map(range, shape))


def box_within(outer: Box, inner: Box) -> Box:
    """Return the places in an array of a box of the slice that the outer box shows of it."""
    pairs = zip(outer, inner, strict=True)
    return tuple(
        range(o.start + o.step * i.start, o.start + o.step * i.stop, o.step * i.step)
        for o, i in pairs
    )


def reshaped_box(box: Box, made: Sequence[int], read: Sequence[int]) -> Box:
    """Return places of the array that was reshaped: all that the box shows, or some of them.

    Axes that were split or joined belong together. Of such the box's places are a box again where
    they lie one after the other; the first of them stands for others.
    """
    found: list[range] = []
    for own, others in _matching_axes(made, read):
        places = [box[axis] for axis in own]
        sizes = [made[axis] for axis in own]
        found += _places(places, sizes, [read[axis] for axis in others])
    return tuple(found)


def _matching_axes(made: Sequence[int], read: Sequence[int]) -> list[tuple[range, range]]:
    """Cut both shapes into the shortest parts of as many elements as each other."""
    parts, i, j = [], 0, 0
    while i < len(made) or j < len(read):
        first, second = i, j
        i, j = min(i + 1, len(made)), min(j + 1, len(read))
        while math.prod(made[first:i]) != math.prod(read[second:j]):
            if j == len(read) or (
                i < len(made) and math.prod(made[first:i]) < math.prod(read[second:j])
            ):
                i += 1
            else:
                j += 1
        parts.append((range(first, i), range(second, j)))
    return parts


def _places(places: Sequence[range], sizes: Sequence[int], read: Sequence[int]) -> list[range]:
    start = 0
    for axis, size in zip(places, sizes, strict=True):
        start = start * size + min(axis)
    count = _contiguous(places, sizes)
    found = []
    for size in reversed(read):
        at = start % size
        if at == 0 and count % size == 0:
            found.append(range(size))
            start, count = start // size, count // size
        else:
            found.append(range(at, min(at + count, size)))
            start, count = start // size, 1
    return found[::-1]


def _contiguous(places: Sequence[range], sizes: Sequence[int]) -> int:
    """Return how many places follow each other from the first; 1 where they stand apart."""
    count, is_whole = 1, True
    for axis, size in zip(reversed(places), reversed(sizes), strict=True):
        if len(axis) == 1:
            is_whole = is_whole and size == 1
            continue
        if not is_whole or abs(axis.step) != 1:
            return 1
        count, is_whole = count * len(axis), len(axis) == size
    return count
