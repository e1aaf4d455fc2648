"""Index arithmetic agrees with Python's integers and stays simple."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.metal.kernel_ir.index import Axis, Index, Names, flatten, unflatten

ROW, COLUMN = Axis("row", 6), Axis("column", 8)


def value(index: Index, places: dict[str, int]) -> int:
    return int(eval(index.render().replace("/", "//"), {}, dict(places)))


def shapes_of(size: int) -> list[tuple[int, ...]]:
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    return [
        (a, b, size // (a * b))
        for a, b in itertools.product(divisors, divisors)
        if size % (a * b) == 0
    ]


@given(st.sampled_from(shapes_of(48)), st.sampled_from(shapes_of(48)), st.permutations([0, 1, 2]))
def test_views_of_views_keep_their_elements(
    first: tuple[int, ...], second: tuple[int, ...], order: list[int]
) -> None:
    source = Index.of(ROW) * 8 + Index.of(COLUMN)
    viewed = unflatten(source, first)
    turned = [viewed[axis] for axis in order]
    offset = flatten(unflatten(flatten(turned, [first[a] for a in order]), second), second)
    for row, column in itertools.product(range(6), range(8)):
        flat = row * 8 + column
        c, rest = flat % first[2], flat // first[2]
        places = (rest // first[1], rest % first[1], c)
        expected = 0
        for axis in order:
            expected = expected * first[axis] + places[axis]
        assert value(offset, {"row": row, "column": column}) == expected


@pytest.mark.parametrize("shape", shapes_of(48))
def test_reshaping_there_and_back_costs_nothing(shape: tuple[int, ...]) -> None:
    index = Index.of(Axis("index", 48))
    assert flatten(unflatten(index, shape), shape) == index


def test_rows_and_columns_separate_without_division() -> None:
    offset = flatten((Index.of(ROW), Index.of(COLUMN)), (6, 8))
    assert unflatten(offset, (2, 3, 8))[2].render() == "column"
    assert unflatten(offset, (6, 8)) == (Index.of(ROW), Index.of(COLUMN))


@pytest.mark.parametrize("shape", shapes_of(48))
def test_what_leading_axes_repeat_keeps_its_elements(shape: tuple[int, ...]) -> None:
    rows = Index.of(Axis("tile", 8)) * 6 + Index.of(ROW)
    offset = flatten(unflatten(rows, shape)[1:], shape[1:])
    places = [{"tile": tile, "row": row} for tile, row in itertools.product(range(8), range(6))]
    expected = [(p["tile"] * 6 + p["row"]) % (shape[1] * shape[2]) for p in places]
    assert [value(offset, p) for p in places] == expected


def test_what_leading_axes_repeat_is_one_remainder() -> None:
    rows = Index.of(Axis("tile", 49)) * 64 + Index.of(Axis("row", 64))
    assert flatten(unflatten(rows, (16, 4, 49))[1:], (4, 49)) == rows % 196


def test_a_named_factor_is_written_by_name() -> None:
    offset = flatten((Index.of(ROW), Index.of(COLUMN)), (6, 8))
    assert offset.render(Names({8: "columns"})) == "row * columns + column"


def test_a_reversed_axis_subtracts() -> None:
    assert (Index.of(7) + Index.of(COLUMN) * -1).render() == "7 - column"


def test_a_remainder_is_joined_from_its_own_parts() -> None:
    whole = Index.of(Axis("row", 1000)) % 192
    assert whole // 8 * 8 + whole % 8 == whole
