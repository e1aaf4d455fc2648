"""Inputs that lie on either side of where a task's function bends."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.boundary import boundaries_of
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture


def graph_of(function: Callable[..., mx.array], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, *arrays))


def huber(p: mx.array, t: mx.array) -> mx.array:
    off = mx.abs(p - t)
    return mx.where(off < 0.5, off * off, off - 0.25)


def row_losses(p: mx.array, t: mx.array) -> mx.array:
    return mx.sum(huber(p, t), axis=-1)


def total_loss(p: mx.array, t: mx.array) -> mx.array:
    return mx.sum(huber(p, t))


def centred(x: mx.array) -> mx.array:
    return mx.maximum(x - mx.mean(x, axis=-1, keepdims=True), 0.5)


def clipped_product(x: mx.array, w: mx.array) -> mx.array:
    return mx.clip(mx.tanh(x) * w, -0.25, 0.25)


def offs(graph: Graph) -> NDArray[np.float64]:
    p, t = (a.astype(np.float64) for a in Case(graph, Distribution.BOUNDARY).inputs("secret"))
    return np.asarray(np.abs(p - t))


def test_rows_lie_next_to_the_threshold_or_add_nothing() -> None:
    pair = [mx.zeros((96, 64)) for _ in range(2)]
    off = offs(graph_of(row_losses, *pair))
    near = np.abs(off - 0.5) < 0.13
    assert near.all(axis=1).sum() > 12
    few = (off < 1e-3).sum(axis=1) >= 64 - 16
    assert few.sum() > 12
    assert (off[few] > 0.5).any(), "beyond"
    assert ((off[few] < 0.5) & (off[few] > 0.3)).any(), "before"


def test_of_what_is_joined_few_elements_add_anything() -> None:
    pair = [mx.zeros((96, 64)) for _ in range(2)]
    off = offs(graph_of(total_loss, *pair))
    assert 4 < (off > 1e-2).sum() <= 16


def test_a_value_that_all_of_a_row_moves_has_no_boundary() -> None:
    assert boundaries_of(graph_of(centred, mx.zeros((8, 32)))) == ()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_bounds_of_computed_values_are_met(dtype: mx.Dtype) -> None:
    graph = graph_of(clipped_product, mx.zeros((64, 48), dtype), mx.zeros((64, 48), dtype))
    x, w = Case(graph, Distribution.BOUNDARY).inputs("secret")
    value = np.tanh(x.astype(np.float64)) * w.astype(np.float64)
    assert (np.abs(np.abs(value) - 0.25) < 0.07).mean() > 0.1


def above(x: mx.array) -> mx.array:
    return mx.any(x > 0.75, axis=-1)


@pytest.mark.parametrize(
    ("dtype", "next_one"), [(mx.bfloat16, 0.75390625), (mx.float16, 0.75048828125)]
)
def test_a_row_turns_on_the_next_number_where_an_input_is_compared(
    dtype: mx.Dtype, next_one: float
) -> None:
    (x,) = Case(graph_of(above, mx.zeros((96, 64), dtype)), Distribution.BOUNDARY).inputs("secret")
    assert next_one in x.astype(np.float64).max(axis=1)
