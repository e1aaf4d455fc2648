"""What slices show together is counted as a set of places would be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.evaluator.speed.box_union import union_size
from kernelwright.ir.ops.box import Box, box_within, whole_box

SHAPE = (9, 12)


def _places(size: int) -> st.SearchStrategy[range]:
    edge, step = st.integers(-size, size), st.sampled_from((-3, -2, -1, 1, 2, 3))
    return st.builds(slice, edge, edge, step).map(lambda s: range(size)[s])


BOXES = st.lists(st.tuples(*map(_places, SHAPE)), max_size=6)


def _marked(box: Box, inside: Box) -> set[tuple[int, int]]:
    return {(inside[0][i], inside[1][j]) for i in box[0] for j in box[1]}


@settings(deadline=None)
@given(BOXES)
def test_every_place_counts_once(boxes: list[Box]) -> None:
    shown: set[tuple[int, int]] = set()
    for box in boxes:
        shown |= _marked(box, whole_box(SHAPE))
    assert union_size(boxes) == len(shown)


@settings(deadline=None)
@given(st.tuples(*map(_places, SHAPE)), st.data())
def test_a_slice_of_a_slice_is_a_box(outer: Box, data: st.DataObject) -> None:
    inner = data.draw(st.tuples(*(_places(len(places)) for places in outer)))
    found = box_within(outer, inner)
    assert _marked(found, whole_box(SHAPE)) == _marked(inner, outer)


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        # Long axes are cut only where boxes end.
        ([(range(1 << 40),), (range(1 << 39, 3 << 40),)], 3 << 40),
        # Strides along them are not compared: the larger counts.
        ([(range(0, 1 << 40, 2),), (range(1, 1 << 40, 4),)], 1 << 39),
    ],
)
def test_a_long_axis_takes_no_time(boxes: list[Box], expected: int) -> None:
    assert union_size(boxes) == expected


def test_many_columns_of_a_table_are_counted() -> None:
    columns = [(range(1 << 20), range(i, i + 1)) for i in range(0, 300, 3)]
    assert union_size(columns) == np.int64(100) << 20
