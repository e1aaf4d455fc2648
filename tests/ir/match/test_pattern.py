"""Patterns bind names, try operands that commute in either order, and take back what misled."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.ir.match.pattern import (
    Bind,
    Either,
    Found,
    Made,
    Number,
    Pattern,
    match,
    match_node,
)
from kernelwright.ir.naming.idioms.reader import Reader

X, Y = Bind("x"), Bind("y")
A, B = mx.array(np.ones((3, 4), np.float32)), mx.array(np.full((3, 4), 2.0, np.float32))


def graph_of(function: object) -> Graph:
    assert callable(function)
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, A, B))


def found_in(function: object, pattern: Pattern) -> Found | None:
    graph = graph_of(function)
    return match(Reader(graph), pattern, graph.outputs[0])


def test_operands_of_a_commutative_op_match_in_either_order() -> None:
    gate = Made(("multiply",), (X, Made(("sigmoid",), (X,))))
    for function in (lambda x, y: x * mx.sigmoid(x), lambda x, y: mx.sigmoid(x) * x):
        found = found_in(function, gate)
        assert found is not None
        assert found.values == {"x": 0}


def test_operands_of_other_ops_have_their_places() -> None:
    pattern = Made(("subtract",), (Made(("exp",), (X,)), Y))
    assert found_in(lambda x, y: mx.exp(x) - y, pattern) is not None
    assert found_in(lambda x, y: y - mx.exp(x), pattern) is None


def test_a_name_is_one_value() -> None:
    pattern = Made(("add",), (X, Made(("exp",), (X,))))
    assert found_in(lambda x, y: mx.exp(x) + x, pattern) is not None
    assert found_in(lambda x, y: mx.exp(x) + y, pattern) is None


def test_a_way_that_misleads_is_taken_back() -> None:
    # The first order binds x to the exponential, where the rest no longer fits.
    pattern = Made(("multiply",), (Made(("add",), (X, Y)), X))
    found = found_in(lambda x, y: (mx.exp(y) + x) * x, pattern)
    assert found is not None
    assert found.values["x"] == 0


def test_the_first_of_several_patterns_that_fits_counts() -> None:
    pattern = Either((Made(("exp",), (X,), name="powers"), Y))
    first, second = (found_in(f, pattern) for f in (lambda x, y: mx.exp(x), lambda x, y: -x))
    assert first is not None
    assert second is not None
    assert "powers" in first.values
    assert second.values.keys() == {"y"}


@pytest.mark.parametrize(("number", "is_there"), [(1.0, True), (2.0, False)])
def test_a_constant_is_known_by_its_value(number: float, is_there: bool) -> None:
    found = found_in(lambda x, y: x + 1, Made(("add",), (X, Number(number))))
    assert (found is not None) is is_there


def test_axes_are_bound_too() -> None:
    total = Made(("sum",), (X,), axes="axes")
    pattern = Made(("add",), (total, total))
    assert found_in(lambda x, y: x.sum(0, keepdims=True) + x.sum(0, keepdims=True), pattern)
    other = found_in(lambda x, y: x[:3, :3].sum(0) + x[:3, :3].sum(1), pattern)
    assert other is None


def test_a_node_matches_before_it_has_a_value() -> None:
    graph = graph_of(lambda x, y: mx.exp(x) + y)
    pattern = Either((Made(("multiply",), (X, Y)), Made(("add",), (Made(("exp",), (X,)), Y))))
    found = match_node(Reader(graph), pattern, graph.nodes[-1])
    assert found is not None
    assert found.values == {"x": 0, "y": 1}
