"""MLX is never let to an index that lies outside of an array, and answers as before elsewhere."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.evaluator.oracle.bounded import interpret_bounded, strays

ROWS = 7


def _take(x: mx.array, i: mx.array) -> mx.array:
    return x[i]


def _computed(x: mx.array, i: mx.array) -> mx.array:
    return x[(mx.sqrt(i.astype(mx.float32)) * 2).astype(mx.int32)]


def _along(x: mx.array, i: mx.array) -> mx.array:
    return mx.take_along_axis(x, i[:, None], axis=0)


def _put(x: mx.array, i: mx.array) -> mx.array:
    return x.at[i].add(1.0)


def _slice(x: mx.array, i: mx.array) -> mx.array:
    return mx.slice(x, i[:1], (0,), (3, 4))


FUNCTIONS: tuple[Callable[[mx.array, mx.array], mx.array], ...] = (
    *(_take, _computed, _along, _put, _slice),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_indices_in_range_mean_what_they_did(
    function: Callable[[mx.array, mx.array], mx.array],
) -> None:
    x = mx.arange(ROWS * 4, dtype=mx.float32).reshape(ROWS, 4)
    i = mx.array([0, 1, 3, 1], mx.int32)
    graph = ir.capture(function, x, i)
    [found] = interpret_bounded(graph, x, i)
    assert not strays(graph, (x, i))
    np.testing.assert_array_equal(found, function(x, i))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("index", [2**31 - 1, -(2**31), 1_000_000])
def test_indices_out_of_range_stay_within_the_array(
    function: Callable[[mx.array, mx.array], mx.array], index: int
) -> None:
    x = mx.arange(ROWS * 4, dtype=mx.float32).reshape(ROWS, 4)
    i = mx.array([index, 1, 3, 1], mx.int32)
    graph = ir.capture(function, x, mx.array([0, 1, 3, 1], mx.int32))
    assert strays(graph, (x, i))
    [found] = interpret_bounded(graph, x, i)
    known = {*range(ROWS * 4), *range(1, ROWS * 4 + 4)}
    assert set(np.asarray(found).ravel().astype(int)) <= known
