"""Gates of mixtures of experts are recognised as people write them, and nothing that looks so."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture, idioms
from kernelwright.ir.naming.idioms import Idiom

X, BIAS = mx.zeros((6, 16)), mx.zeros((16,))
Function = Callable[[mx.array, mx.array], object]


def found_in(function: Function) -> list[Idiom]:
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, X, BIAS))
    return [idiom for idiom in idioms(graph) if idiom.name == "moe_gate"]


def best(scores: mx.array, count: int = 4) -> mx.array:
    return mx.argpartition(-scores, kth=count - 1, axis=-1)[..., :count]


def last(scores: mx.array, count: int = 4) -> mx.array:
    return mx.argpartition(scores, kth=-count, axis=-1)[..., -count:]


def picked(scores: mx.array, chosen: mx.array) -> mx.array:
    return mx.take_along_axis(scores, chosen, axis=-1)


def shares(weights: mx.array) -> mx.array:
    return weights / weights.sum(axis=-1, keepdims=True)


def soft(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def written(x: mx.array) -> mx.array:
    powers = mx.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


GATES: dict[str, tuple[Function, str]] = {
    "shares": (lambda x, b: shares(picked(soft(x), best(soft(x)))), "softmax"),
    "by a full sort": (
        lambda x, b: shares(picked(soft(x), mx.argsort(-soft(x), axis=-1)[:, :4])),
        "softmax",
    ),
    "the last ones": (lambda x, b: shares(picked(soft(x), last(soft(x)))), "softmax"),
    "own softmax": (lambda x, b: soft(picked(x, last(x))), "softmax"),
    "scores alone": (lambda x, b: picked(soft(x), best(soft(x))), "softmax"),
    "in float32": (
        lambda x, b: shares(picked(s := soft(x.astype(mx.float32)), best(s))).astype(mx.float16),
        "softmax",
    ),
    "biased": (
        lambda x, b: shares(picked(mx.sigmoid(x), best(b + mx.sigmoid(x)))),
        "sigmoid",
    ),
    "ranked before": (lambda x, b: shares(picked(soft(x), best(x))), "softmax"),
    "a written softmax": (lambda x, b: picked(written(x), best(x)), "softmax"),
    "the last ones, first to last": (
        lambda x, b: picked(soft(x), mx.argsort(soft(x), axis=-1)[:, ::-1][:, :4]),
        "softmax",
    ),
    "times minus one": (
        lambda x, b: soft(picked(x, mx.argpartition(-1 * x, kth=3, axis=-1)[:, :4])),
        "softmax",
    ),
    "without places": (lambda x, b: soft(mx.topk(x, 4, axis=-1)), "softmax"),
    "shares without places": (lambda x, b: shares(mx.topk(soft(x), 4, axis=-1)), "softmax"),
    "own sigmoid": (lambda x, b: mx.sigmoid(picked(x, best(x))), "sigmoid"),
    "with an epsilon": (
        lambda x, b: (
            (w := picked(mx.sigmoid(x), best(mx.sigmoid(x))))
            * (1 / (1e-20 + w.sum(axis=-1, keepdims=True)))
        ),
        "sigmoid",
    ),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_recognised(name: str) -> None:
    function, scores = GATES[name]
    (gate,) = found_in(function)
    assert (gate.parameter("experts"), gate.parameter("scores")) == (4, scores)
    assert ("bias" in dict(gate.operands)) == (name == "biased")


def test_the_best_expert_alone_is_a_gate() -> None:
    (gate,) = found_in(lambda x, b: picked(soft(x), mx.argmax(x, axis=-1, keepdims=True)))
    assert (gate.parameter("experts"), gate.parameter("scores")) == (1, "softmax")


NEAR_MISSES: dict[str, Function] = {
    "the worst": lambda x, b: shares(picked(soft(x), best(-soft(x)))),
    "others' scores": lambda x, b: picked(soft(x), best(soft(x + b))),
    "the second to fifth": lambda x, b: picked(soft(x), mx.argsort(-soft(x), axis=-1)[:, 1:5]),
    "places alone": lambda x, b: best(soft(x)),
    "the least without places": lambda x, b: soft(mx.sort(x, axis=-1)[:, :4]),
    "ranks back from the middle": lambda x, b: picked(
        soft(x), mx.argsort(soft(x), axis=-1)[:, 14:10:-1]
    ),
    "the least's place": lambda x, b: picked(soft(x), mx.argmin(x, axis=-1, keepdims=True)),
    "every second": lambda x, b: picked(soft(x), mx.argsort(-soft(x), axis=-1)[:, :8:2]),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_no_gate(name: str) -> None:
    assert not found_in(NEAR_MISSES[name])
