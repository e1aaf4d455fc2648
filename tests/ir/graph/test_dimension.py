"""Sizes are monomials over free dimensions, tied to each other by equations."""

import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dimension import Equations, Size, product


def test_sizes_multiply_and_divide_exactly() -> None:
    rows, width = Size(2, (0,)), Size(3, (1,))
    whole = product((rows, width))
    assert whole == Size(6, (0, 1))
    assert whole.over(rows) == width
    assert rows.over(width) is None
    assert Size(4).over(Size(3)) is None


def test_equal_dimensions_change_together() -> None:
    equations = Equations()
    rows, others, width = (equations.symbol(n) for n in (8, 8, 4))
    equations.equate(rows * width, others * width, "they are added")
    symbol, value = equations.solve(others, 16)
    assert equations.evaluated(rows, {symbol: value}) == 16
    assert equations.evaluated(width, {symbol: value}) == 4


def test_a_dimension_may_be_a_multiple_of_another() -> None:
    equations = Equations()
    whole, part = equations.symbol(12), equations.symbol(4)
    equations.equate(whole, part * Size(3), "it is cut in three")
    symbol, value = equations.solve(whole, 30)
    assert equations.evaluated(part, {symbol: value}) == 10
    with pytest.raises(UnsupportedError, match="a multiple of 3"):
        equations.solve(whole, 31)


def test_a_fixed_dimension_says_why() -> None:
    equations = Equations()
    rows = equations.symbol(8)
    equations.pin(rows, "a constant has 8 rows")
    with pytest.raises(UnsupportedError, match="it cannot change: a constant has 8 rows"):
        equations.solve(rows, 9)


def test_sizes_of_one_are_no_unknowns() -> None:
    assert Equations().symbol(1) == Size(1)


def test_a_chain_as_long_as_a_deep_graph_is_resolved_to_its_end() -> None:
    equations = Equations()
    symbols = [equations.symbol(64) for _ in range(5000)]
    for later, earlier in zip(symbols[1:], symbols, strict=False):
        # By hand, the later one first: `equate` alone would bind each to the end at once.
        equations._bind(later.symbols[0], earlier, "")
    assert equations.resolved(symbols[-1]) == symbols[0]
    equations.pin(symbols[0], "the mask is for 64")
    assert equations.resolved(symbols[-1]) == Size(64)
