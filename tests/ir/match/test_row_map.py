"""What each element of a row is made of does not depend on how it is moved there."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture
from kernelwright.ir.match.row_map import Sum
from kernelwright.ir.naming.idioms.reader import Reader

X = mx.zeros((3, 4))
ROWS = (0, ((3, 4),))
"""The input, and where each of its rows begins."""
Function = Callable[[mx.array], mx.array]


def row_of(function: Function) -> list[Sum]:
    """Return the sums of a row's elements of x, whose rows are four apart."""
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, X))
    return Reader(graph).maps.row(graph.outputs[0])


def places(*elements: tuple[int, float]) -> list[Sum]:
    return [{((ROWS, place),): factor} for place, factor in elements]


SWAPPED = places((2, -1.0), (3, -1.0), (0, 1.0), (1, 1.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.concatenate([-x[:, 2:], x[:, :2]], axis=-1),
        lambda x: mx.roll(x, 2, -1) * mx.array([-1.0, -1.0, 1.0, 1.0]),
        lambda x: mx.stack([-x[:, 2:], x[:, :2]], axis=1).reshape(3, 4),
        lambda x: x @ -mx.eye(4, k=-2) + x @ mx.eye(4, k=2),
    ],
)
def test_cuts_joins_signs_and_matrices_are_one_map(function: Function) -> None:
    assert row_of(function) == SWAPPED


def test_terms_that_cancel_are_none() -> None:
    def kept(x: mx.array) -> mx.array:
        return x * x[:, ::-1] + x * x - x * x

    assert row_of(kept) == row_of(lambda x: x * x[:, ::-1])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x[:, ::-1],
        lambda x: x + x,
        lambda x: x - mx.array([1.0, 2, 3, 4]),
        lambda x: x + 3,
    ],
)
def test_rows_that_are_added_up_are_a_row_of_their_own(function: Function) -> None:
    """As what a bias was added to, or what a layer reads."""
    row = row_of(function)
    assert [[place for ((_, place),) in terms] for terms in row] == [[0], [1], [2], [3]]
    assert len({view for terms in row for ((view, _),) in terms}) == 1


def test_products_hold_their_factors_in_one_order() -> None:
    (first, *_) = row_of(lambda x: x[:, ::-1] * x * -1.0)
    assert first == {((ROWS, 0), (ROWS, 3)): -1.0}


@pytest.mark.parametrize("function", [mx.exp, lambda x: 2.0 * x])
def test_what_is_no_sum_of_products_stands_for_itself(function: Function) -> None:
    row = row_of(function)
    assert [[place for ((_, place),) in terms] for terms in row] == [[0], [1], [2], [3]]


def test_rows_that_are_repeated_are_no_other_rows() -> None:
    def outer(x: mx.array) -> mx.array:
        return mx.broadcast_to(x[:, None], (3, 3, 4)) * mx.broadcast_to(x[None], (3, 3, 4))

    (first, *_) = row_of(outer)
    assert first == {(((0, ((3, 0), (3, 4))), 0), ((0, ((3, 4), (3, 0))), 0)): 1.0}
