"""What depends on a reduction may move with its row as a whole, and nowhere else."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture
from kernelwright.metal.family import Pattern, classify
from kernelwright.plan import partition

X = mx.zeros((2, 6, 3, 8))


def norm(x: mx.array) -> mx.array:
    return x * mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + 1e-6)


def halves_turned(x: mx.array) -> mx.array:
    left, right = mx.split(norm(x).transpose(0, 2, 1, 3), 2, axis=-1)
    return mx.concatenate([-right, left], axis=-1)


def pairs_turned(x: mx.array) -> mx.array:
    even, odd = norm(x)[..., ::2], norm(x)[..., 1::2]
    return mx.stack([-odd, even], axis=-1).reshape(x.shape)


def rows_turned(x: mx.array) -> mx.array:
    return norm(x)[:, ::-1] * 2


def rows_shared(x: mx.array) -> mx.array:
    return norm(x) + mx.concatenate([norm(x)[:, 1:], norm(x)[:, :1]], axis=1)


def two_orders(x: mx.array) -> mx.array:
    square = norm(x[:, :3])
    return square + square.transpose(0, 2, 1, 3)


@pytest.mark.parametrize("function", [halves_turned, pairs_turned])
def test_a_row_that_moves_as_a_whole_stays_in_its_kernel(
    function: Callable[[mx.array], mx.array],
) -> None:
    (region,) = partition(canonicalize(capture(function, X)))
    assert classify(region.extract()).pattern is Pattern.ROWWISE
    assert {"mean", "concatenate"} <= {node.op for node in region.nodes}


@pytest.mark.parametrize("function", [rows_turned, rows_shared, two_orders])
def test_rows_that_meet_others_do_not(function: Callable[[mx.array], mx.array]) -> None:
    graph = canonicalize(capture(function, X))
    assert classify(graph).pattern is Pattern.NONE
    reasons = ("mixes rows", "different axes", "another row")
    assert any(word in classify(graph).reason for word in reasons)


def merged(a: mx.array, b: mx.array, a_sum: mx.array, b_sum: mx.array) -> tuple[mx.array, mx.array]:
    total = mx.logaddexp(a_sum, b_sum)
    return total, a * mx.exp(a_sum - total)[..., None] + b * mx.exp(b_sum - total)[..., None]


def test_rows_and_elements_are_one_region_without_a_reduction() -> None:
    wide, single = mx.zeros((2, 4, 8, 16)), mx.zeros((2, 4, 8))
    (region,) = partition(canonicalize(capture(merged, wide, wide, single, single)))
    family = classify(region.extract())
    assert (family.pattern, family.axes) == (Pattern.ROWWISE, (3,))
    assert family.row_count == 64


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("few rows", lambda x: (mx.exp(x[:, 0, 0, :1]), x * mx.exp(x[:, :1, :1, :1]))),
        ("leading axes", lambda x: ((y := mx.exp(x[0])) * 2, x * y)),
        ("sizes that do not divide", lambda x: (mx.exp(x[:, :5, :7]), mx.exp(x))),
    ],
)
def test_sizes_apart_stay_apart(
    name: str, function: Callable[[mx.array], tuple[mx.array, mx.array]]
) -> None:
    graph = canonicalize(capture(function, mx.zeros((4, 6, 8, 8))))
    assert "differ in size" in classify(graph).reason, name
