"""Gates and norms are recognised however people write them, and not where a number differs."""

from collections.abc import Callable
from itertools import product

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture, idioms, reference, standardize

X = mx.zeros((3, 8))
Function = Callable[[mx.array], mx.array]
GATES: dict[str, Function] = {
    "one op": mx.sigmoid,
    "inverse": lambda x: 1 / (1 + mx.exp(-x)),
    "inverse of a sum": lambda x: 1 / (mx.exp(mx.negative(x)) + 1),
}
JOINS: dict[str, Callable[[mx.array, mx.array], mx.array]] = {
    "behind": lambda x, gate: x * gate,
    "before": lambda x, gate: gate * x,
    "through a view": lambda x, gate: x * gate[None].reshape(x.shape),
}
SPREADS: dict[str, Function] = {
    "square": lambda x: mx.mean(mx.square(x), axis=-1, keepdims=True),
    "product": lambda x: mx.mean(x * x, axis=1, keepdims=True),
    "kept by hand": lambda x: mx.mean(x * x, axis=-1)[:, None],
    "sum": lambda x: mx.sum(x * x, axis=-1, keepdims=True) / 8,
}
NEAR_MISSES: dict[str, Function] = {
    "a power that is not negated": lambda x: x / (1 + mx.exp(x)),
    "two and a power": lambda x: x / (2 + mx.exp(-x)),
    "a difference": lambda x: x / (1 - mx.exp(-x)),
    "a power over it": lambda x: (1 + mx.exp(-x)) / x,
    "another bound": lambda x: mx.maximum(x, 1),
    "a smaller one": lambda x: mx.minimum(x, 0),
    "a sum of squares": lambda x: x * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) + 1e-5),
    "a mean of powers": lambda x: x * mx.rsqrt(mx.mean(mx.exp(x), -1, keepdims=True) + 1e-5),
    "a mean of others": lambda x: x * mx.rsqrt(mx.mean(x * (x + 1), -1, keepdims=True) + 9.0),
}


def graph_of(function: Function) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, X))


def names(function: Function) -> set[str]:
    return {idiom.name for idiom in idioms(graph_of(function))}


@pytest.mark.parametrize(("gate", "join"), list(product(GATES, JOINS)))
def test_every_way_to_write_a_gate_has_its_name(gate: str, join: str) -> None:
    assert names(lambda x: JOINS[join](x, GATES[gate](x))) == {"silu"}
    assert standardize(graph_of(lambda x: JOINS[join](x, GATES[gate](x)))).fingerprint == (
        standardize(graph_of(lambda x: x * mx.sigmoid(x))).fingerprint
    )


@pytest.mark.parametrize("spread", SPREADS)
def test_every_way_to_write_a_norm_has_its_name(spread: str) -> None:
    assert names(lambda x: x * mx.rsqrt(SPREADS[spread](x) + 1e-5)) == {"rms_norm"}
    assert names(lambda x: x / mx.sqrt(SPREADS[spread](x) + 1e-5)) == {"rms_norm"}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_has_no_name_and_keeps_its_meaning(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name])
    assert {idiom.name for idiom in idioms(graph)} == set()
    x = np.random.default_rng(0).normal(size=X.shape) + 3
    (written,), (rewritten,) = reference(graph, [x]), reference(standardize(graph), [x])
    assert np.allclose(written, rewritten, rtol=1e-12)
