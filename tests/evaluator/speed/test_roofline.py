"""The least that a task moves: what no right kernel can leave unread."""

import math
from collections.abc import Callable
from typing import cast

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.speed.roofline import least_bytes, least_bytes_read, least_operations
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.op import Array
from kernelwright.ir.passes import canonicalize, gather_attention
from kernelwright.ir.trace.capture import capture

X = mx.zeros((64, 64))
ROWS = mx.zeros((4,), mx.int32)
COLUMNS = mx.zeros((64, 4), mx.int32)
MATRIX = 64 * 64 * 4


def graph_of(function: Callable[..., mx.array], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, *arrays))


def _product(*factors: mx.array) -> mx.array:
    return math.prod(factors[1:], start=factors[0])


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
        # What is hidden by a mask or not needed to decide may stay unread.
        (causal, (X,), MATRIX + (64 * 65 // 2 - 1) * 4),
        (lambda x, y: (x > 0).astype(x.dtype) * y, (X, X), 2 * MATRIX),
        (lambda x: mx.any(x > 0, axis=-1), (X,), 64),
        # All indices may name one row; of an index the byte counts that tells 64 rows apart.
        (lambda x, i: mx.take(x, i, axis=0), (X, ROWS), 4 * 256 + 256 + 4),
        (lambda x, i: mx.take_along_axis(x, i, axis=1), (X, COLUMNS), 1024 + 256 + 256),
        (
            lambda x, i: mx.take(mx.broadcast_to(x, (64, 64)), i, axis=0),
            (X[0], ROWS),
            4 * 256 + 4,
        ),
        (lambda x, u: mx.slice_update(x, u, mx.array([4]), [0]), (X, X[:8]), 2 * MATRIX),
        (lambda x, i, u: x.at[i].add(u), (X, ROWS, X[:4]), 2 * MATRIX + 4 * 256 + 4),
        (lambda x: mx.where(mx.tri(64, dtype=mx.bool_), x, 0.0) * 2, (X,), MATRIX + 64 * 65 * 2),
        # Parts of one array count together, each place once.
        (lambda x: _product(*mx.split(x, 4, axis=1)), (X,), MATRIX + MATRIX // 4),
        (lambda x: _product(*(x[:, i::4] for i in range(4))), (X,), MATRIX + MATRIX // 4),
        (lambda x: x[:, :8] * x[:, 4:12], (X,), MATRIX * 20 // 64),
        (lambda x: x[::2, :8] + x[1::2, :8] * x[::2, 8:16], (X,), MATRIX * 16 // 64),
        (lambda x: _product(*(a[::2] for a in mx.split(x, 2, axis=1))), (X,), MATRIX * 3 // 4),
        (lambda x: mx.exp(x.T[:8]) - x[:, 8:16].T, (X,), MATRIX * 24 // 64),
        (
            lambda x: _product(*(x.reshape(64, 8, 8)[:, i] for i in (1, 2, 5))),
            (X,),
            MATRIX * 32 // 64,
        ),
        (lambda x: (x * 2)[:, :8] * (x * 2)[:, 8:16], (X,), MATRIX * 24 // 64),
        # An infinity decides the sum, whatever is beside it.
        (lambda x: mx.sum(mx.where(mx.tri(64, dtype=mx.bool_), x, mx.inf), axis=-1), (X,), 256),
    ],
)
def test_only_what_every_kernel_must_touch_counts(
    function: Callable[..., mx.array], arrays: tuple[mx.array, ...], expected: int
) -> None:
    assert least_bytes(graph_of(function, *arrays)) == expected


def test_a_product_that_is_shown_must_be_computed_and_one_that_is_summed_up_need_not() -> None:
    assert least_operations(graph_of(lambda x, y: mx.exp(x @ y), X, X)) >= 2 * 64**3
    assert least_operations(graph_of(lambda x, y: mx.sum(x @ y), X, X)) == 0


def _attended(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask="causal")


def _local(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    places = mx.arange(4)
    near = mx.abs(places[:, None] + 1 - mx.arange(5)) < 2
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=near)


def _chosen(x: mx.array, w: mx.array, i: mx.array) -> mx.array:
    return mx.gather_mm(x, w, rhs_indices=i)


INDEXED: dict[str, tuple[Callable[..., mx.array], tuple[mx.array, ...], int]] = {
    "rows": (lambda x, i: x[i] * 2, (mx.zeros((5, 3)), mx.zeros((4,), mx.int32)), 1),
    "places": (
        lambda x, i: mx.take_along_axis(x, i, axis=1),
        (mx.zeros((3, 5)), mx.zeros((3, 2), mx.int32)),
        1,
    ),
    "added": (
        lambda x, i, u: x.at[i].add(u),
        (mx.zeros((5, 3)), mx.zeros((2,), mx.int32), mx.zeros((2, 3))),
        1,
    ),
    "replaced": (
        lambda x, u: mx.slice_update(x, u, mx.array([1, 1]), [0, 1]),
        (mx.zeros((5, 4)), mx.zeros((2, 2))),
        -1,
    ),
    "matrices": (_chosen, (mx.zeros((2, 2, 3)), mx.zeros((4, 3, 2)), mx.zeros((2,), mx.uint32)), 2),
    "causal scores": (
        lambda x: mx.softmax(mx.where(mx.tri(4, dtype=mx.bool_), x, -mx.inf), axis=-1),
        (mx.zeros((4, 4)),),
        -1,
    ),
    "causal attention": (_attended, tuple(mx.zeros((1, 2, 3, 4)) for _ in range(3)), -1),
    "local attention": (
        _local,
        (mx.zeros((1, 2, 4, 4)), mx.zeros((1, 1, 5, 4)), mx.zeros((1, 1, 5, 4))),
        -1,
    ),
    "causal attention of later queries": (
        _attended,
        (mx.zeros((1, 2, 2, 4)), mx.zeros((1, 1, 5, 4)), mx.zeros((1, 1, 5, 4))),
        -1,
    ),
    "windows": (lambda x: x[:3, :3] * 2 + x[1:, 1:4] + x[::-2, 1:4].sum(), (mx.zeros((4, 5)),), -1),
    "parts of parts": (
        lambda x: _product(*(a[:, ::2] for a in mx.split(x.T, 2, axis=1))),
        (mx.zeros((4, 5)),),
        -1,
    ),
    "strided": (lambda x: mx.as_strided(x, (4, 5), (3, 1), 1) * x, (mx.zeros((4, 5)),), -1),
    "masked": (
        lambda x, y: mx.where(mx.tri(4, dtype=mx.bool_), x, y) * y,
        (mx.zeros((4, 4)), mx.zeros((4, 4))),
        -1,
    ),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("index", [0, 1])
def test_no_element_counts_that_changes_nothing(name: str, index: int) -> None:
    function, examples, place = INDEXED[name]
    graph = gather_attention(graph_of(function, *examples))
    random = np.random.default_rng(7)
    arrays = [
        np.full(t.shape, index, t.dtype.numpy) if i == place else random.normal(size=t.shape)
        for i, t in enumerate(graph.input_types)
    ]
    (whole,) = reference(graph, cast("list[Array]", arrays))
    for at, least in enumerate(least_bytes_read(graph)):
        telling = 0
        for element in range(arrays[at].size):
            changed = [a.copy() for a in arrays]
            changed[at].reshape(-1)[element] += 1
            (found,) = reference(graph, cast("list[Array]", changed))
            telling += not np.array_equal(found, whole)
        assert least <= telling * graph.input_types[at].dtype.itemsize
    assert sum(least_bytes_read(graph)) > 0


def test_what_a_long_window_hides_is_counted_without_its_table() -> None:
    length, window = 1 << 17, 4096
    shapes = (TensorType((1, 1, length, 64), Dtype.FLOAT16),) * 4
    attributes = (
        ("scale", 1.0),
        ("is_causal", True),
        ("window", window),
        ("soft_cap", 0.0),
        ("has_sinks", False),
    )
    node = Node("attention", (0, 1, 2), (3,), attributes)
    graph = Graph(shapes, (0, 1, 2), (), (node,), (3,))
    row = 64 * 2
    assert least_bytes_read(graph) == ((length - 1) * row, length * row, length * row)
