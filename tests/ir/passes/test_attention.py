"""Attention is gathered from every form into which MLX decomposes it, and computes the same."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir.passes import gather_attention
from kernelwright.ir.passes.attention_steps import expand_attention

Attend = Callable[..., mx.array]


def sdpa(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None = None) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask=mask)


def causal(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask="causal")


def projected(x: mx.array, w: mx.array) -> mx.array:
    q, k, v = mx.split(x @ w, [32, 48], axis=-1)
    q, k, v = (t.reshape(2, 6, -1, 8).transpose(0, 2, 1, 3) for t in (q, k, v))
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask="causal")


def with_sinks(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask="causal", sinks=sinks)


def written_out(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    scores = (q @ k.swapaxes(-1, -2)).astype(mx.float32) * 0.25
    return mx.softmax(scores, axis=-1).astype(q.dtype) @ v


def soft_capped(q: mx.array, k: mx.array, v: mx.array, mask: mx.array) -> mx.array:
    batch, heads, queries, size = q.shape
    grouped = (q * 0.25).reshape(batch, k.shape[1], -1, queries, size)
    scores = grouped @ mx.expand_dims(k, 2).swapaxes(-1, -2)
    scores = mx.tanh(scores / 2.0) * 2.0 + mask
    weights = mx.softmax(scores, axis=-1, precise=True)
    return (weights @ mx.expand_dims(v, 2)).reshape(batch, heads, queries, -1)


CASES: dict[str, tuple[Attend, list[tuple[int, ...]]]] = {
    "plain": (sdpa, [(2, 4, 6, 8)] * 3),
    "causal": (causal, [(2, 4, 6, 8)] * 3),
    "grouped": (sdpa, [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)]),
    "grouped causal": (causal, [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)]),
    "decode": (sdpa, [(2, 4, 1, 8), (2, 2, 9, 8), (2, 2, 9, 8)]),
    "longer keys": (causal, [(1, 2, 3, 8), (1, 2, 7, 8), (1, 2, 7, 8)]),
    "additive mask": (sdpa, [(2, 4, 6, 8)] * 3 + [(6, 6)]),
    "mask by head": (sdpa, [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8), (2, 4, 6, 6)]),
    "values of another width": (sdpa, [(2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 6, 5)]),
    "sinks": (with_sinks, [(2, 4, 6, 8), (2, 2, 9, 8), (2, 2, 9, 8), (4,)]),
    "written out": (written_out, [(2, 4, 6, 8)] * 3),
    "soft cap": (soft_capped, [(2, 4, 3, 8), (2, 2, 9, 8), (2, 2, 9, 8), (3, 9)]),
    "projected": (projected, [(2, 6, 12), (12, 64)]),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_is_one_op_with_the_same_meaning(name: str) -> None:
    function, shapes = CASES[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in shapes]
    graph = ir.canonicalize(ir.capture(function, *map(mx.array, arrays)))
    gathered = gather_attention(graph)
    assert sum(node.op == "attention" for node in gathered.nodes) == 1
    assert not any(node.op == "softmax" for node in gathered.nodes)
    ir.verify(gathered)
    expected = np.array(function(*map(mx.array, arrays)))
    replayed = ir.interpret(gathered, *map(mx.array, arrays))[0]
    np.testing.assert_allclose(np.array(replayed), expected, rtol=1e-4, atol=1e-5)
    (oracle,) = ir.reference(gathered, arrays)
    np.testing.assert_allclose(oracle, expected, rtol=1e-4, atol=1e-5)


def seen(q: mx.array, k: mx.array) -> tuple[mx.array, mx.array]:
    return mx.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], mx.arange(k.shape[2])[None]


MASKS: dict[str, tuple[Callable[[mx.array, mx.array], mx.array], bool, int]] = {
    "causal": (lambda r, c: c <= r, True, 0),
    "what comes after is hidden": (lambda r, c: mx.logical_not(c > r), True, 0),
    "ones below the diagonal": (
        lambda r, c: mx.tril(mx.ones((r.size, c.size)), k=c.size - r.size) == 1,
        True,
        0,
    ),
    "added minus infinity": (
        lambda r, c: mx.triu(mx.full((r.size, c.size), -mx.inf), k=c.size - r.size + 1),
        True,
        0,
    ),
    "added lowest number": (lambda r, c: (c > r) * mx.finfo(mx.float32).min, True, 0),
    "one minus": (lambda r, c: (1 - (c <= r).astype(mx.float32)) * -1e9, True, 0),
    "window": (lambda r, c: (c <= r) & (c > r - 3), True, 3),
    "window as mlx-lm has it": (lambda r, c: (r >= c) & (r < c + 3), True, 3),
    "window of what is hidden": (lambda r, c: ((c > r) | (c + 3 <= r)) * -1e9, True, 3),
    "both sides": (lambda r, c: mx.abs(r - c) < 3, False, 3),
    "both sides, chosen": (lambda r, c: mx.where(mx.abs(c - r) >= 4, -mx.inf, 0.0), False, 4),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("queries", [6, 4])
def test_positions_are_told_from_masks(name: str, queries: int) -> None:
    mask, is_causal, window = MASKS[name]
    shapes = [(1, 4, queries, 8), (1, 2, 6, 8), (1, 2, 6, 8)]

    def masked(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return sdpa(q, k, v, mask(*seen(q, k)))

    graph = ir.canonicalize(ir.capture(masked, *map(mx.zeros, shapes)))
    (node,) = (n for n in gather_attention(graph).nodes if n.op == "attention")
    assert (node.attribute("is_causal"), node.attribute("window")) == (is_causal, window)
    assert len(node.inputs) == 3


def test_one_query_sees_a_window_from_where_it_stands() -> None:
    def windowed(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return sdpa(q, k, v, mx.arange(k.shape[2])[None] >= k.shape[2] - 4)

    shapes = [(1, 4, 1, 8), (1, 2, 9, 8), (1, 2, 9, 8)]
    graph = gather_attention(ir.canonicalize(ir.capture(windowed, *map(mx.zeros, shapes))))
    (node,) = (n for n in graph.nodes if n.op == "attention")
    assert node.attribute("window") == 4
    assert len(node.inputs) == 3


@pytest.mark.parametrize(
    "mask",
    [
        lambda r, c: c <= r + 1,
        lambda r, c: (c <= r) & (c != 0),
        lambda r, c: c // 2 <= r,
        lambda r, c: (c <= r) * -1e3,
        lambda r, c: mx.minimum(c, 2) <= r,
    ],
)
def test_masks_of_other_shapes_are_read(mask: Callable[[mx.array, mx.array], mx.array]) -> None:
    def masked(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return sdpa(q, k, v, mask(*seen(q, k)))

    graph = gather_attention(ir.canonicalize(ir.capture(masked, *[mx.zeros((1, 2, 6, 8))] * 3)))
    (node,) = (n for n in graph.nodes if n.op == "attention")
    assert not node.attribute("is_causal")
    assert len(node.inputs) == 4


def test_a_bias_stands_beside_positions_and_a_padding_mask_does_not() -> None:
    q = mx.zeros((1, 2, 6, 8))

    def biased(q: mx.array, k: mx.array, v: mx.array, bias: mx.array) -> mx.array:
        rows, columns = seen(q, k)
        scores = mx.where(columns <= rows, (q @ k.swapaxes(-1, -2)) * 0.25 + bias, -mx.inf)
        return mx.softmax(scores, axis=-1) @ v

    def chosen(q: mx.array, k: mx.array, v: mx.array, bias: mx.array) -> mx.array:
        rows, columns = seen(q, k)
        return sdpa(q, k, v, mx.where(columns <= rows, bias, mx.finfo(mx.float32).min))

    def padded(q: mx.array, k: mx.array, v: mx.array, kept: mx.array) -> mx.array:
        rows, columns = seen(q, k)
        return sdpa(q, k, v, (columns <= rows) & kept)

    for function, last, is_causal in (
        (biased, mx.zeros((2, 6, 6)), True),
        (chosen, mx.zeros((2, 6, 6)), True),
        (padded, mx.zeros((1, 1, 1, 6), mx.bool_), False),
    ):
        graph = gather_attention(ir.canonicalize(ir.capture(function, q, q, q, last)))
        (node,) = (n for n in graph.nodes if n.op == "attention")
        assert node.attribute("is_causal") is is_causal
        assert len(node.inputs) == 4


def test_steps_mean_the_same_as_the_op() -> None:
    def everything(
        q: mx.array, k: mx.array, v: mx.array, sinks: mx.array, bias: mx.array
    ) -> mx.array:
        rows, columns = seen(q, k)
        mask = mx.where((columns <= rows) & (columns > rows - 3), bias, -mx.inf)
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask, sinks=sinks)

    shapes = [(2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6), (4,), (5, 7)]
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in shapes]
    graph = ir.canonicalize(ir.capture(everything, *map(mx.array, arrays)))
    gathered = gather_attention(graph)
    steps = expand_attention(gathered)
    ir.verify(steps)
    assert all(node.op != "attention" for node in steps.nodes)
    (one,), (other,) = ir.reference(gathered, arrays), ir.reference(steps, arrays)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    (replayed,) = ir.interpret(gathered, *map(mx.array, arrays))
    np.testing.assert_allclose(np.array(replayed), one, rtol=1e-4, atol=1e-5)


WEIGHT = mx.ones((8, 8))
LAYERS: dict[str, tuple[Callable[..., mx.array], list[tuple[int, ...]]]] = {
    "softmax alone": (lambda x, w: mx.softmax(x, axis=-1) @ w, [(4, 8), (8, 8)]),
    "two layers": (lambda x, w: mx.softmax(x @ w * 2, axis=-1) @ w, [(4, 8), (8, 8)]),
    "two layers of a batch": (
        lambda x, w: mx.softmax(x @ w.T, axis=-1) @ w,
        [(2, 4, 8), (8, 8)],
    ),
    "two captured layers": (lambda x: mx.softmax(x @ WEIGHT.T, axis=-1) @ WEIGHT, [(4, 8)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_softmax_between_layers_is_not_attention(name: str) -> None:
    function, shapes = LAYERS[name]
    graph = ir.canonicalize(ir.capture(function, *map(mx.zeros, shapes)))
    assert gather_attention(graph) == graph


def test_one_head_is_attention() -> None:
    def one(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return mx.softmax(q @ k.T * 0.5, axis=-1) @ v

    graph = ir.canonicalize(ir.capture(one, *map(mx.zeros, [(4, 8), (6, 8), (6, 8)])))
    (node,) = (n for n in gather_attention(graph).nodes if n.op == "attention")
    assert node.attribute("scale") == 0.5
