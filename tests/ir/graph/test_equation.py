"""Dimensions follow from each other by equations, or say why they are fixed."""

import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dimension import Size
from kernelwright.ir.graph.equation import Equations


def test_equal_dimensions_change_together() -> None:
    equations = Equations()
    rows, others, width = (equations.symbol(n) for n in (8, 8, 4))
    equations.equate(rows * width, others * width, "they are added")
    symbol, value = equations.solve(others, 16, {})
    assert equations.evaluated(rows, {symbol: value}) == 16
    assert equations.evaluated(width, {symbol: value}) == 4


def test_a_dimension_may_be_a_multiple_of_another() -> None:
    equations = Equations()
    whole, part = equations.symbol(12), equations.symbol(4)
    equations.equate(whole, part * Size.number(3), "it is cut in three")
    symbol, value = equations.solve(whole, 30, {})
    assert equations.evaluated(part, {symbol: value}) == 10
    with pytest.raises(UnsupportedError, match="a multiple of 3"):
        equations.solve(whole, 31, {})


def test_a_fixed_dimension_says_why() -> None:
    equations = Equations()
    rows = equations.symbol(8)
    equations.pin(rows, "a constant has 8 rows")
    with pytest.raises(UnsupportedError, match="it cannot change: a constant has 8 rows"):
        equations.solve(rows, 9, {})


def test_sizes_of_one_are_no_unknowns() -> None:
    assert Equations().symbol(1) == Size.number(1)


def test_a_chain_as_long_as_a_deep_graph_is_resolved_to_its_end() -> None:
    equations = Equations()
    symbols = [equations.symbol(64) for _ in range(5000)]
    for later, earlier in zip(symbols[1:], symbols, strict=False):
        # By hand, the later one first: `equate` alone would bind each to the end at once.
        equations._bind(later.symbols[0], earlier, "")
    assert equations.resolved(symbols[-1]) == symbols[0]
    equations.pin(symbols[0], "the mask is for 64")
    assert equations.resolved(symbols[-1]) == Size.number(64)


def test_a_dimension_may_be_a_sum_of_others() -> None:
    equations = Equations()
    past, new, keys, mask = (equations.symbol(n) for n in (16, 4, 20, 20))
    equations.equate(keys, past + new, "they are concatenated")
    equations.equate(mask, keys, "they are added")
    assert equations.resolved(mask) == past + new
    chosen = {past.symbols[0]: 100}
    assert equations.evaluated(mask, chosen) == 104
    assert equations.solve(mask, 130, chosen) == (new.symbols[0], 30)
    with pytest.raises(UnsupportedError, match="depends on several dimensions"):
        equations.solve(mask, 130, {})


def test_a_part_is_never_what_is_left_of_a_sum() -> None:
    equations = Equations()
    past, new = (equations.symbol(n, is_given=True) for n in (16, 4))
    equations.equate(past + new, Size.number(20), "a table has 20 places")
    with pytest.raises(UnsupportedError, match="a table has 20 places"):
        equations.solve(past, 17, {})


def test_a_multiple_with_some_more_takes_steps() -> None:
    equations = Equations()
    length, steps = equations.symbol(9), equations.symbol(4)
    equations.equate(length, steps * Size.number(2) + Size.number(1), "a window moves by two")
    assert equations.solve(length, 13, {}) == (steps.symbols[0], 6)
    with pytest.raises(UnsupportedError, match="a multiple of 2, plus 1"):
        equations.solve(length, 12, {})


def test_what_both_sides_have_in_common_says_nothing() -> None:
    equations = Equations()
    past, new, rows, fresh = (equations.symbol(n) for n in (16, 4, 3, 4))
    equations.equate((past + new) * rows, past * rows + fresh * rows, "they are added")
    assert equations.resolved(fresh) == equations.resolved(new)
    assert equations.solve(past, 5, {}) == (past.symbols[0], 5)


def test_parts_of_equal_sums_are_equal_one_by_one() -> None:
    equations = Equations()
    keys, fresh, values, made = (equations.symbol(n, is_given=True) for n in (16, 4, 16, 4))
    equations.equate(keys + fresh, values + made, "they are multiplied")
    assert equations.resolved(values) == keys
    assert equations.resolved(made) == fresh


def test_factors_of_equal_products_of_sums_are_equal() -> None:
    equations = Equations()
    rows, one, other = (equations.symbol(n) for n in (16, 3, 3))
    more = rows + Size.number(1)
    equations.equate(more * one, more * other, "they are subtracted")
    assert equations.resolved(other) == one
    assert equations.solve(rows, 5, {}) == (rows.symbols[0], 5)
