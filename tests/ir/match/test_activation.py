"""Gates and norms are recognised however people write them, and not where a number differs."""

import math
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
    "a choice of another": lambda x: mx.where(x > 1, x, 0.0),
    "a choice of what is below": lambda x: mx.where(x < 0, x, 0.0),
    "a product with what is above another": lambda x: x * (x > 1),
    "a difference from its size": lambda x: 0.5 * (x - mx.abs(x)),
    "a whole sum": lambda x: x + mx.abs(x),
    "a logarithm of two": lambda x: mx.log(2 + mx.exp(x)),
    "a power beside x": lambda x: x * (1 + mx.exp(-x)),
    "x over a gate": lambda x: x / mx.sigmoid(x),
    "x over one and a tangent": lambda x: x / (1 + mx.tanh(x / 2)),
    "the other side's gate": lambda x: x * (1 - mx.sigmoid(x)),
    "a power over two and itself": lambda x: x * mx.exp(x) / (2 + mx.exp(x)),
    "x and a half": lambda x: x + 0.5 * x * mx.erf(x / math.sqrt(2)),
    "a little more than x": lambda x: x * mx.sigmoid(1.00005 * x),
    "a choice of the other": lambda x: mx.where(x > 0, 0.0, x),
    "a gate's logarithm": lambda x: -mx.log(mx.sigmoid(x)),
    "a third": lambda x: 0.5 * x * (1 + mx.tanh(x / 3)),
    "another bound": lambda x: mx.maximum(x, 1),
    "a smaller one": lambda x: mx.minimum(x, 0),
    "a sum of squares": lambda x: x * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) + 1e-5),
    "a mean of powers": lambda x: x * mx.rsqrt(mx.mean(mx.exp(x), -1, keepdims=True) + 1e-5),
    "a mean of others": lambda x: x * mx.rsqrt(mx.mean(x * (x + 1), -1, keepdims=True) + 9.0),
}

_BENT = math.sqrt(2 / math.pi)


def _small(x: mx.array) -> mx.array:
    return mx.exp(-mx.abs(x))


def _bent(x: mx.array) -> mx.array:
    return _BENT * (x + 0.044715 * x**3)


ACTIVATIONS: dict[tuple[str, str], Function] = {
    ("relu", "chosen"): lambda x: mx.where(x > 0, x, 0.0),
    ("relu", "chosen by a limit before"): lambda x: mx.where(mx.array(0.0) <= x, x, 0.0),
    ("relu", "multiplied"): lambda x: x * (x > 0),
    ("relu", "half of a sum"): lambda x: 0.5 * (x + mx.abs(x)),
    ("relu", "clipped"): lambda x: mx.clip(x, 0, None),
    ("relu", "chosen by what is below"): lambda x: mx.where(x < 0, 0.0, x),
    ("relu", "a whole sum over two"): lambda x: (x + mx.abs(x)) / 2,
    ("relu", "less what is below"): lambda x: x - mx.minimum(x, 0),
    ("relu", "the opposite of the smaller"): lambda x: -mx.minimum(-x, 0),
    ("relu_squared", "chosen"): lambda x: mx.where(x > 0, x * x, 0),
    ("relu_squared", "times x"): lambda x: x * mx.maximum(x, 0),
    ("relu_squared", "power"): lambda x: mx.maximum(x, 0) ** 2,
    ("relu_squared", "product"): lambda x: mx.maximum(x, 0) * mx.maximum(0, x),
    ("softplus", "log1p"): lambda x: mx.log1p(mx.exp(x)),
    ("softplus", "log"): lambda x: mx.log(1 + mx.exp(x)),
    ("softplus", "in two sides"): lambda x: mx.maximum(x, 0) + mx.log1p(mx.exp(-mx.abs(x))),
    ("softplus", "the log of two sides"): lambda x: mx.maximum(x, 0) + mx.log(1 + _small(x)),
    ("softplus", "less the log of a gate"): lambda x: (
        mx.maximum(x, 0) - mx.log(mx.sigmoid(mx.abs(x)))
    ),
    ("softplus", "added exponentials of two sides"): lambda x: (
        mx.logaddexp(-mx.abs(x), 0) + mx.maximum(x, 0)
    ),
    ("silu", "chosen from two ways"): lambda x: mx.where(
        x >= 0, x / (1 + mx.exp(-x)), x * mx.exp(x) / (1 + mx.exp(x))
    ),
    ("gelu", "chosen from two ways"): lambda x: mx.where(
        x > 1, 0.5 * x + 0.5 * x * mx.erf(x / math.sqrt(2)), x * (1 - mx.erf(-x / math.sqrt(2))) / 2
    ),
    ("softplus", "logaddexp"): lambda x: mx.logaddexp(0, x),
    ("softplus", "of a gate"): lambda x: -mx.log(mx.sigmoid(-x)),
    ("silu", "power above and below"): lambda x: x * mx.exp(x) / (1 + mx.exp(x)),
    ("silu", "one less the other side"): lambda x: x * (1 - mx.sigmoid(-x)),
    ("silu", "times minus one"): lambda x: x / (1 + mx.exp(-1.0 * x)),
    ("silu", "taken from zero"): lambda x: x / (1 + mx.exp(0 - x)),
    ("gelu", "half and half"): lambda x: x * (0.5 + 0.5 * mx.erf(x * math.sqrt(0.5))),
    ("gelu", "multiplied out"): lambda x: 0.5 * x + 0.5 * x * mx.erf(x / math.sqrt(2)),
    ("gelu", "one less the rest"): lambda x: x * (1 - 0.5 * (1 - mx.erf(x / math.sqrt(2)))),
    ("gelu", "of the opposite"): lambda x: 0.5 * x * (1 - mx.erf(-x / math.sqrt(2))),
    ("gelu_tanh", "half and half"): lambda x: x * (0.5 + 0.5 * mx.tanh(_bent(x))),
    ("gelu_tanh", "multiplied out"): lambda x: 0.5 * x + 0.5 * x * mx.tanh(_bent(x)),
    ("gelu_tanh", "over a power"): lambda x: x / (1 + mx.exp(-2 * _bent(x))),
    ("gelu_fast", "over a power"): lambda x: x / (1 + mx.exp(-1.702 * x)),
    ("silu", "tanh"): lambda x: 0.5 * x * (1 + mx.tanh(0.5 * x)),
    ("silu", "tanh of a quotient"): lambda x: x * (mx.tanh(x / 2) + 1) / 2,
    ("gelu_tanh", "sigmoid"): lambda x: x * mx.sigmoid(2 * _BENT * (x + 0.044715 * x**3)),
}


PARTS: dict[str, tuple[Function, set[str]]] = {
    "a choice between two gates": (
        lambda x: mx.where(x > 0, x * mx.sigmoid(x), x * mx.sigmoid(1.702 * x)),
        {"silu", "gelu_fast"},
    ),
    "a log of two and a power": (
        lambda x: mx.maximum(x, 0) + mx.log(2 + _small(x)),
        {"relu"},
    ),
    "more than the log of a gate": (
        lambda x: mx.maximum(x, 0) + mx.log(mx.sigmoid(mx.abs(x))),
        {"relu"},
    ),
    "twice the size": (
        lambda x: mx.maximum(x, 0) + mx.log(1 + mx.exp(-2 * mx.abs(x))),
        {"relu", "softplus"},
    ),
}
"""What is no activation itself, with the names of what it is made of."""


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


@pytest.mark.parametrize(("name", "way"), ACTIVATIONS)
def test_every_way_to_write_an_activation_has_its_name(name: str, way: str) -> None:
    assert names(ACTIVATIONS[name, way]) == {name}


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


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_what_has_no_name_have_theirs(name: str) -> None:
    function, parts = PARTS[name]
    assert names(function) == parts
