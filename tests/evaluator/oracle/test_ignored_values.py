"""Nobody is blamed for reading, or not reading, what no query of a row sees."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.oracle.ignored_values import out_of_sight
from kernelwright.ir import Graph, canonicalize, capture, gather_attention, reference


def causal(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    attended = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask="causal")
    return attended * 2


def graph_of(shape: tuple[int, ...]) -> Graph:
    return gather_attention(canonicalize(capture(causal, *[mx.zeros(shape)] * 3)))


def test_a_value_after_a_query_spoils_no_more_than_its_own_feature() -> None:
    graph = graph_of((1, 1, 4, 8))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((1, 1, 4, 8), dtype=np.float32) for _ in range(3)]
    arrays[2][0, 0, 2, 5] = np.inf
    expected = reference(graph, arrays)
    (marks,) = out_of_sight(graph, arrays, expected) or []
    wanted = np.zeros((1, 1, 4, 8), bool)
    wanted[0, 0, :2, 5] = True
    assert np.array_equal(marks, wanted)
    assert np.isnan(expected[0][wanted]).all()


def test_an_infinity_in_sight_may_meet_one_out_of_sight() -> None:
    graph = graph_of((1, 1, 4, 8))
    arrays = [np.ones((1, 1, 4, 8), np.float32) for _ in range(3)]
    arrays[2][0, 0, [0, 2], 5] = -np.inf
    expected = reference(graph, arrays)
    (marks,) = out_of_sight(graph, arrays, expected) or []
    # Who reads the second gets NaN for the first two queries, who does not an infinity.
    assert np.argwhere(marks).tolist() == [[0, 0, 0, 5], [0, 0, 1, 5]]


def test_a_query_that_is_not_finite_is_its_own_fault() -> None:
    graph = graph_of((1, 1, 4, 8))
    arrays = [np.ones((1, 1, 4, 8), np.float32) for _ in range(3)]
    arrays[0][0, 0, 1, 0] = np.nan
    (marks,) = out_of_sight(graph, arrays, reference(graph, arrays)) or []
    assert not marks.any()


def test_finite_inputs_and_other_graphs_hide_nothing() -> None:
    graph = graph_of((1, 1, 4, 8))
    arrays = [np.ones((1, 1, 4, 8), np.float32) for _ in range(3)]
    assert out_of_sight(graph, arrays, reference(graph, arrays)) is None
    plain = canonicalize(capture(mx.exp, mx.zeros((4,))))
    assert out_of_sight(plain, [np.full(4, np.inf, np.float32)], [np.full(4, np.inf)]) is None


def padded(x: mx.array, weight: mx.array) -> mx.array:
    return mx.conv1d(x, weight, padding=1)


def spread_out(x: mx.array, weight: mx.array) -> mx.array:
    return mx.conv_transpose1d(x, weight, stride=2)


@pytest.mark.parametrize(
    ("fn", "rows"), [(padded, [0]), (spread_out, [1, 3, 5, 7, 9, 10])], ids=["around", "between"]
)
def test_a_weight_spoils_nothing_where_it_meets_no_element(
    fn: Callable[[mx.array, mx.array], mx.array], rows: list[int]
) -> None:
    graph = canonicalize(capture(fn, mx.zeros((1, 5, 2)), mx.zeros((3, 3, 2))))
    x, weight = np.ones((1, 5, 2), np.float32), np.ones((3, 3, 2), np.float32)
    weight[1, 0, 0] = np.inf
    expected = reference(graph, [x, weight])
    (marks,) = out_of_sight(graph, [x, weight], expected) or []
    assert np.flatnonzero(marks[0, :, 1]).tolist() == rows
    assert not marks[0, :, [0, 2]].any()


def quantized(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    return mx.quantized_matmul(x, w, scales, biases, group_size=32, bits=4)


def test_an_infinity_in_a_quantized_product_may_meet_a_zero_and_a_nan_is_still_judged() -> None:
    words, groups = mx.zeros((3, 4), mx.uint32), mx.ones((3, 1))
    graph = canonicalize(capture(quantized, mx.zeros((3, 32)), words, groups, groups))
    x = np.ones((3, 32), np.float32)
    x[0, 5], x[1, 5] = np.inf, np.nan
    scales = np.ones((3, 1), np.float32)
    arrays = [x, np.zeros((3, 4), np.uint32), scales, scales]
    (marks,) = out_of_sight(graph, arrays, reference(graph, arrays)) or []
    # Only the first row: the second is NaN whatever the order, the third is finite.
    assert marks.tolist() == [[True] * 3, [False] * 3, [False] * 3]


def masked_attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    scores = mx.where(mx.arange(6)[:, None] >= mx.arange(6)[None, :], q @ k.T, -mx.inf)
    return mx.softmax(scores, axis=-1) @ v


def test_what_a_written_attention_weighs_by_zero_is_nobodys_fault() -> None:
    arrays = [mx.zeros((6, 8)) for _ in range(3)]
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(masked_attention, *arrays))
    q, k, v = (np.random.default_rng(n).standard_normal((6, 8), np.float32) for n in range(3))
    v[4, 2] = np.inf
    marks = out_of_sight(graph, (q, k, v), reference(graph, [q, k, v]))
    assert marks is not None
    assert marks[0][:4, 2].all(), "no query before the fifth sees it"
    assert not marks[0][4:, 2].any()
    assert not np.delete(marks[0], 2, axis=1).any()


def test_a_weight_that_meets_what_a_pad_put_there_is_no_ones_fault() -> None:
    def padded(x: mx.array, w: mx.array) -> mx.array:
        return mx.conv1d(mx.pad(x, [(0, 0), (2, 0), (0, 0)]), w)

    x, w = np.ones((1, 6, 4), np.float32), np.ones((3, 3, 4), np.float32)
    w[:, 0] = np.inf
    graph = canonicalize(capture(padded, mx.array(x), mx.array(w)))
    marks = out_of_sight(graph, [x, w], reference(graph, [x, w]))
    assert marks is not None
    # The first two results read the pad.
    assert marks[0][0, :2].all()
    assert not marks[0][0, 2:].any()
