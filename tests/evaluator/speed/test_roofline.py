"""The least that a task moves: what no right kernel can leave unread."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.speed.roofline import least_bytes, least_operations
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

X = mx.zeros((64, 64))
ROWS = mx.zeros((4,), mx.int32)
MATRIX = 64 * 64 * 4


def graph_of(function: Callable[..., mx.array], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, *arrays))


def causal(x: mx.array) -> mx.array:
    return mx.softmax(mx.where(mx.tri(64, dtype=mx.bool_), x, -mx.inf), axis=-1)


@pytest.mark.parametrize(
    ("function", "arrays", "expected"),
    [
        (lambda x, w: x * w, (X, mx.zeros((64,))), 2 * MATRIX + 256),
        (lambda x: mx.softmax(x, axis=-1), (X,), 2 * MATRIX),
        (lambda x: mx.sum(x, axis=-1), (X,), MATRIX + 256),
        (lambda x: x[:, :16] * 2, (X,), 2 * MATRIX // 4),
        (lambda x: x.T.reshape(-1) + 1, (X,), 2 * MATRIX),
        (lambda x, y: x @ y, (X, X), 3 * MATRIX),
        # One part of each element is enough.
        (lambda z: mx.real(z) + 1, (mx.zeros((64, 64), mx.complex64),), 2 * MATRIX),
        (lambda i: i.astype(mx.uint8), (mx.zeros((64, 64), mx.int32),), MATRIX // 2),
        # What is gathered from, hidden by a mask or not needed to decide may stay unread.
        (lambda x, i: mx.take(x, i, axis=0), (X, ROWS), 4 * 256),
        (causal, (X,), MATRIX),
        (lambda x, y: (x > 0).astype(x.dtype) * y, (X, X), 2 * MATRIX),
        (lambda x: mx.any(x > 0, axis=-1), (X,), 64),
    ],
)
def test_only_what_every_kernel_must_touch_counts(
    function: Callable[..., mx.array], arrays: tuple[mx.array, ...], expected: int
) -> None:
    assert least_bytes(graph_of(function, *arrays)) == expected


def test_a_product_that_is_shown_must_be_computed_and_one_that_is_summed_up_need_not() -> None:
    assert least_operations(graph_of(lambda x, y: mx.exp(x @ y), X, X)) >= 2 * 64**3
    assert least_operations(graph_of(lambda x, y: mx.sum(x @ y), X, X)) == 0
