"""Attention is recognised however its scores, masks and weights are written, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ir import Graph, canonicalize, capture, gather_attention, idioms, reference

BATCH, HEADS, LENGTH, WIDTH = 1, 2, 6, 4
SCALE = WIDTH**-0.5
QUERIES = mx.zeros((BATCH, HEADS, LENGTH, WIDTH))
SEEN = mx.ones((BATCH, LENGTH), mx.bool_)
SINKS = mx.zeros((HEADS,))
Function = Callable[..., mx.array]


def _shown(seen: mx.array) -> mx.array:
    causal = mx.tril(mx.ones((LENGTH, LENGTH), mx.bool_))
    return mx.logical_and(seen[:, None, None], causal)


MASKS: dict[str, Callable[[mx.array, mx.array], mx.array]] = {
    "none": lambda s, seen: s,
    "chosen": lambda s, seen: mx.where(_shown(seen), s, -mx.inf),
    "hidden": lambda s, seen: mx.where(mx.logical_not(_shown(seen)), -1e9, s),
    "added": lambda s, seen: s + mx.where(_shown(seen), 0.0, -1e9),
    "ones taken from one": lambda s, seen: s + (1.0 - _shown(seen).astype(s.dtype)) * -1e9,
    "ones and one": lambda s, seen: s - 1e9 * (1.0 - _shown(seen).astype(s.dtype)),
    "multiplied and added": lambda s, seen: (
        s * _shown(seen).astype(s.dtype) + -1e9 * (1.0 - _shown(seen).astype(s.dtype))
    ),
    "multiplied and less": lambda s, seen: (
        _shown(seen).astype(s.dtype) * s - (1.0 - _shown(seen).astype(s.dtype)) * 1e9
    ),
    "multiplied, less one": lambda s, seen: (
        s * _shown(seen).astype(s.dtype) + (_shown(seen).astype(s.dtype) - 1.0) * 1e9
    ),
    "in two steps": lambda s, seen: mx.where(
        seen[:, None, None], mx.where(mx.tril(mx.ones((LENGTH, LENGTH))) > 0, s, -1e9), -1e9
    ),
}


def _powers(s: mx.array) -> mx.array:
    return mx.exp(s - s.max(axis=-1, keepdims=True))


WEIGHTED: dict[str, Callable[[mx.array, mx.array], mx.array]] = {
    "softmax": lambda s, v: mx.softmax(s, axis=-1) @ v,
    "written out": lambda s, v: (_powers(s) / _powers(s).sum(axis=-1, keepdims=True)) @ v,
    "by a logarithm": lambda s, v: mx.exp(s - mx.logsumexp(s, axis=-1, keepdims=True)) @ v,
    "divided late": lambda s, v: (_powers(s) @ v) / _powers(s).sum(axis=-1, keepdims=True),
    "scaled late": lambda s, v: (1 / _powers(s).sum(axis=-1, keepdims=True)) * (_powers(s) @ v),
    "in float32": lambda s, v: mx.softmax(s.astype(mx.float32), axis=-1).astype(v.dtype) @ v,
}
PRODUCTS: dict[str, Callable[[mx.array, mx.array], mx.array]] = {
    "scores scaled": lambda q, k: (q @ k.swapaxes(-1, -2)) * SCALE,
    "scores divided": lambda q, k: q @ k.transpose(0, 1, 3, 2) / WIDTH**0.5,
    "queries scaled": lambda q, k: (SCALE * q) @ k.swapaxes(-1, -2),
    "both scaled": lambda q, k: (q * SCALE**0.5) @ (k * SCALE**0.5).swapaxes(-1, -2),
    "einsum": lambda q, k: mx.einsum("bhqd,bhkd->bhqk", q, k) * SCALE,
    "one op": lambda q, k: mx.addmm(mx.zeros((1,)), q, k.swapaxes(-1, -2), alpha=SCALE, beta=0.0),
}


@dataclass(frozen=True)
class Way:
    """How attention is written."""

    product: str
    mask: str
    weighted: str

    def __call__(self, q: mx.array, k: mx.array, v: mx.array, seen: mx.array) -> mx.array:
        scores = MASKS[self.mask](PRODUCTS[self.product](q, k), seen)
        return WEIGHTED[self.weighted](scores, v)


ways = st.builds(
    Way, st.sampled_from([*PRODUCTS]), st.sampled_from([*MASKS]), st.sampled_from([*WEIGHTED])
)


def graph_of(function: Function, *others: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, QUERIES, QUERIES, QUERIES, *others))


def gathered_ops(graph: Graph) -> list[str]:
    return [node.op for node in gather_attention(graph).nodes if node.op == "attention"]


def means_the_same(graph: Graph, *others: np.ndarray) -> bool:
    drawn = np.random.default_rng(0)
    arrays = [drawn.normal(size=QUERIES.shape) for _ in range(3)]
    (written,) = reference(graph, [*arrays, *others])
    (gathered,) = reference(gather_attention(graph), [*arrays, *others])
    return bool(np.allclose(written, gathered, rtol=1e-6, atol=1e-9))


@settings(max_examples=60, deadline=None)
@given(ways)
def test_every_way_to_write_attention_is_gathered_and_named(way: Way) -> None:
    graph = graph_of(way, SEEN)
    assert gathered_ops(graph) == ["attention"]
    assert "attention" in {idiom.name for idiom in idioms(graph)}
    seen = np.ones((BATCH, LENGTH), bool)
    seen[:, -1] = False
    assert means_the_same(graph, seen)


@pytest.mark.parametrize("mask", [name for name in MASKS if name.startswith("multiplied")])
def test_a_row_that_is_hidden_as_a_whole_is_the_same_everywhere(mask: str) -> None:
    graph = graph_of(Way("scores scaled", mask, "softmax"), SEEN)
    assert gathered_ops(graph) == ["attention"]
    seen = np.arange(LENGTH)[None] > 1
    assert means_the_same(graph, seen)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize(("scale", "found"), [(SCALE, SCALE), (1.003 * SCALE, 1.003 * SCALE)])
def test_a_scale_is_the_usual_one_only_as_far_as_it_was_rounded(
    dtype: mx.Dtype, scale: float, found: float
) -> None:
    def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        scores = (q @ k.swapaxes(-1, -2)).astype(mx.float32) * scale
        return mx.softmax(scores, axis=-1).astype(dtype) @ v

    half = QUERIES.astype(dtype)
    with mx.stream(mx.cpu):
        graph = gather_attention(canonicalize(capture(attention, half, half, half)))
    (node,) = (node for node in graph.nodes if node.op == "attention")
    assert node.attribute("scale") == pytest.approx(found, rel=1e-6)


SQUARE = mx.zeros((2, 4, 4, WIDTH))
"""As many heads as queries and keys, so that a mask of one fits the others."""
MISPLACED: dict[str, tuple[Function, mx.array]] = {
    "factors of queries and a mask of keys": (
        lambda q, k, v, seen: WEIGHTED["softmax"](
            _scores(q, k) * seen.astype(q.dtype)[:, None, :, None]
            + (1.0 - seen.astype(q.dtype)[:, None, None]) * -1e9,
            v,
        ),
        mx.ones((2, 4), mx.bool_),
    ),
    "sinks of queries": (
        lambda q, k, v, sinks: (
            mx.softmax(
                mx.concatenate(
                    [mx.broadcast_to(sinks[:, None], (2, 4, 4, 1)), _scores(q, k)], axis=-1
                ),
                axis=-1,
            )[..., 1:]
            @ v
        ),
        mx.zeros((4,)),
    ),
    "a mask of heads": (
        lambda q, k, v, mask: WEIGHTED["softmax"](_scores(q, k) + mask[:, None, None], v),
        mx.zeros((4,)),
    ),
    "a causal mask of heads": (
        lambda q, k, v, mask: WEIGHTED["softmax"](
            mx.where(mx.arange(4)[:, None, None] >= mx.arange(4), _scores(q, k), -1e9) + mask, v
        ),
        mx.zeros((4,)),
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_masks_and_sinks_of_equal_sizes_are_told_apart(name: str) -> None:
    function, other = MISPLACED[name]
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, SQUARE, SQUARE, SQUARE, other))
    drawn = np.random.default_rng(0)
    arrays = [drawn.normal(size=SQUARE.shape) for _ in range(3)]
    last = drawn.normal(size=other.shape)
    given = [*arrays, last > 0 if other.dtype == mx.bool_ else last]
    (written,), (gathered,) = reference(graph, given), reference(gather_attention(graph), given)
    assert np.allclose(written, gathered, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("is_first", [True, False])
def test_sinks_stand_before_the_scores_or_behind(is_first: bool) -> None:
    def attention(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
        scores = q @ k.swapaxes(-1, -2) * SCALE
        column = mx.broadcast_to(sinks[None, :, None, None], (*scores.shape[:-1], 1))
        joined = mx.concatenate([column, scores] if is_first else [scores, column], axis=-1)
        weights = mx.softmax(joined, axis=-1)
        return (weights[..., 1:] if is_first else weights[..., :-1]) @ v

    graph = graph_of(attention, SINKS)
    assert gathered_ops(graph) == ["attention"]
    assert means_the_same(graph, np.array([0.5, -1.0]))


def _ones(s: mx.array, seen: mx.array) -> mx.array:
    return _shown(seen).astype(s.dtype)


def _scores(q: mx.array, k: mx.array) -> mx.array:
    scores: mx.array = q @ k.swapaxes(-1, -2) * SCALE
    return scores


NEAR_MISSES: dict[str, Function] = {
    "a mask that shows what it should hide": lambda q, k, v, seen: WEIGHTED["softmax"](
        _scores(q, k) * _ones(q, seen) + (1.0 - _ones(q, seen)) * 1e9, v
    ),
    "a product that nothing hides": lambda q, k, v, seen: WEIGHTED["softmax"](
        _scores(q, k) * _ones(q, seen), v
    ),
    "a penalty that hides nothing": lambda q, k, v, seen: WEIGHTED["softmax"](
        _scores(q, k) * _ones(q, seen) - (1.0 - _ones(q, seen)) * 2, v
    ),
    "factors that are no mask": lambda q, k, v, seen: WEIGHTED["softmax"](
        _scores(q, k) * mx.abs(v @ v.swapaxes(-1, -2))
        - 1e9 * (1.0 - mx.abs(v @ v.swapaxes(-1, -2))),
        v,
    ),
    "a sum of other exponentials": lambda q, k, v, seen: (
        (_powers(_scores(q, k)) @ v) / mx.exp(_scores(q, k) / 2).sum(axis=-1, keepdims=True)
    ),
    "a softmax over queries": lambda q, k, v, seen: mx.softmax(_scores(q, k), axis=-2) @ v,
    "a filler that hides nothing": lambda q, k, v, seen: WEIGHTED["softmax"](
        mx.where(_shown(seen), _scores(q, k), -1.0), v
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_not_gathered(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], SEEN)
    assert gathered_ops(graph) == []
    assert "attention" not in {idiom.name for idiom in idioms(graph)}


@pytest.mark.parametrize("is_repeated", [True, False])
def test_heads_that_are_repeated_and_then_cast_are_read_once(is_repeated: bool) -> None:
    def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        wide = [
            mx.repeat(x, 2, axis=1) if is_repeated else mx.broadcast_to(x, q.shape) for x in (k, v)
        ]
        keys, values = (x.astype(mx.float32) for x in wide)
        return mx.softmax(q.astype(mx.float32) @ keys.swapaxes(-1, -2), axis=-1) @ values

    half = QUERIES.astype(mx.float16)
    with mx.stream(mx.cpu):
        graph = gather_attention(canonicalize(capture(attention, half, half[:, :1], half[:, :1])))
    (node,) = (node for node in graph.nodes if node.op == "attention")
    assert [graph.types[v].shape[1] for v in node.inputs] == [HEADS, 1, 1]
