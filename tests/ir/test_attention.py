"""Attention is gathered from every form into which MLX decomposes it, and computes the same."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir.passes import gather_attention

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


def test_causal_mask_is_recognised_and_others_are_kept() -> None:
    shapes = [(1, 2, 6, 8)] * 3

    def windowed(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        rows, columns = mx.arange(6)[:, None], mx.arange(6)[None]
        mask = (columns <= rows) & (columns > rows - 2)
        return sdpa(q, k, v, mask)

    for function, is_causal in ((causal, True), (windowed, False)):
        graph = ir.canonicalize(ir.capture(function, *map(mx.zeros, shapes)))
        (node,) = (n for n in gather_attention(graph).nodes if n.op == "attention")
        assert node.attribute("is_causal") is is_causal
        assert len(node.inputs) == (3 if is_causal else 4)


def test_softmax_times_matrix_is_not_attention() -> None:
    def mixed(x: mx.array, w: mx.array) -> mx.array:
        return mx.softmax(x, axis=-1) @ w

    graph = ir.canonicalize(ir.capture(mixed, mx.zeros((4, 4)), mx.zeros((4, 4))))
    assert gather_attention(graph) == graph
