"""Boxes of a reshaped array show places of the array itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.ir.ops.box import Box, reshaped_box

_SHAPES = ((24,), (2, 12), (6, 4), (2, 3, 4), (4, 6, 1), (1, 3, 2, 4), (2, 2, 3, 2))


@st.composite
def _boxes(draw: st.DrawFn) -> tuple[Box, tuple[int, ...], tuple[int, ...]]:
    made, read = draw(st.sampled_from(_SHAPES)), draw(st.sampled_from(_SHAPES))
    box = []
    for size in made:
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        places = range(start, stop, draw(st.integers(1, 2)))
        box.append(places[::-1] if draw(st.booleans()) else places)
    return tuple(box), made, read


def _shown(box: Box, shape: tuple[int, ...]) -> set[int]:
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return set(numbers[np.ix_(*(list(places) for places in box))].ravel().tolist())


@given(_boxes())
def test_no_place_is_named_that_the_box_does_not_show(
    case: tuple[Box, tuple[int, ...], tuple[int, ...]],
) -> None:
    box, made, read = case
    found = _shown(reshaped_box(box, made, read), read)
    assert found
    assert found <= _shown(box, made)


@pytest.mark.parametrize(
    ("box", "made", "read", "expected"),
    [
        ((range(2), range(1, 2), range(3)), (2, 4, 3), (2, 12), (range(2), range(3, 6))),
        ((range(6), range(2, 3)), (6, 4), (2, 3, 4), (range(2), range(3), range(2, 3))),
        ((range(1), range(24)), (1, 24), (4, 6), (range(4), range(6))),
        ((range(3, 4), range(4)), (6, 4), (24,), (range(12, 16),)),
    ],
)
def test_whole_axes_stay_whole(
    box: Box, made: tuple[int, ...], read: tuple[int, ...], expected: Box
) -> None:
    assert reshaped_box(box, made, read) == expected
