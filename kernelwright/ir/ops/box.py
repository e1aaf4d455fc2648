"""Boxes: the places of an array that a slice shows, a range per axis."""

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
