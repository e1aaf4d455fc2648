"""Rows are recognised however people write them, and nothing that only looks like them."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ir import Graph, canonicalize, capture, idioms, reference, standardize

ROWS, COLUMNS = 3, 8
X = mx.zeros((ROWS, COLUMNS))
T = mx.zeros((ROWS, 1), mx.int32)
Function = Callable[..., mx.array]


@dataclass(frozen=True)
class Way:
    """How a row is written: each choice changes the text and not what it computes."""

    axis: int
    keeps: bool
    views: bool
    swaps: bool
    inverse: bool
    copies: bool

    def peak(self, x: mx.array) -> mx.array:
        found = x.max(axis=self.axis, keepdims=self.keeps)
        return found if self.keeps else found[:, None]

    def total(self, e: mx.array) -> mx.array:
        return self.viewed(e.sum(axis=self.axis, keepdims=True))

    def viewed(self, x: mx.array) -> mx.array:
        x = x[None].reshape(x.shape) if self.views else x
        return mx.stop_gradient(x) if self.copies else x

    def plus(self, a: mx.array, b: mx.array) -> mx.array:
        return b + a if self.swaps else a + b

    def softmax(self, x: mx.array) -> mx.array:
        e = mx.exp(self.viewed(x - self.peak(x)))
        if not self.inverse:
            return e / self.total(e)
        inverse = 1 / self.total(e)
        return inverse * e if self.swaps else e * inverse

    def logsumexp(self, x: mx.array) -> mx.array:
        return self.plus(mx.log(self.total(mx.exp(x - self.peak(x)))), self.peak(x))

    def log_softmax(self, x: mx.array) -> mx.array:
        return x - self.viewed(self.logsumexp(x))

    def cross_entropy(self, x: mx.array, t: mx.array) -> mx.array:
        return self.logsumexp(x) - mx.take_along_axis(x, t, axis=-1)


ways = st.builds(Way, st.sampled_from([-1, 1]), *[st.booleans()] * 5)


def graph_of(function: Function, *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, *arrays))


def names(graph: Graph) -> set[str]:
    return {idiom.name for idiom in idioms(graph)}


@settings(max_examples=40, deadline=None)
@given(ways)
def test_every_way_to_write_a_row_has_its_name(way: Way) -> None:
    assert names(graph_of(way.softmax, X)) == {"softmax"}
    assert names(graph_of(way.logsumexp, X)) == {"logsumexp"}
    assert names(graph_of(way.log_softmax, X)) == {"log_softmax"}
    assert names(graph_of(way.cross_entropy, X, T)) == {"cross_entropy"}


@settings(max_examples=25, deadline=None)
@given(ways)
def test_every_way_to_write_a_softmax_has_one_form(way: Way) -> None:
    form = standardize(graph_of(lambda x: mx.softmax(x, axis=-1), X))
    assert standardize(graph_of(way.softmax, X)).fingerprint == form.fingerprint


def _powers(x: mx.array) -> mx.array:
    return mx.exp(x - x.max(axis=-1, keepdims=True))


def _total(x: mx.array) -> mx.array:
    return _powers(x).sum(axis=-1, keepdims=True)


NEAR_MISSES: dict[str, Function] = {
    "a total over its powers": lambda x: _total(x) / _powers(x),
    "powers of something else": lambda x: mx.exp(x * 2 - x.max(-1, keepdims=True)) / _total(x),
    "a total of others": lambda x: _powers(x) / mx.exp(x).sum(axis=-1, keepdims=True),
    "another inverse": lambda x: _powers(x) * (2 / _total(x)),
    "powers of two": lambda x: mx.power(2.0, x) / mx.power(2.0, x).sum(axis=-1, keepdims=True),
    "a difference": lambda x: _powers(x) - _total(x),
    "a logarithm of two": lambda x: mx.log2(_total(x)) + x.max(axis=-1, keepdims=True),
    "another peak": lambda x: mx.log(_total(x)) + x.min(axis=-1, keepdims=True),
    "a sum that nobody shifted": lambda x: (
        mx.log(mx.exp(x).sum(axis=-1, keepdims=True)) + x.max(axis=-1, keepdims=True)
    ),
}
NAMED = {"softmax", "log_softmax", "cross_entropy"}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_has_no_name_and_keeps_its_meaning(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], X)
    assert names(graph).isdisjoint(NAMED)
    standard = standardize(graph)
    x = np.random.default_rng(0).normal(size=X.shape)
    (written,), (rewritten,) = reference(graph, [x]), reference(standard, [x])
    assert np.allclose(written, rewritten, rtol=1e-12)


@pytest.mark.parametrize("name", ["another peak", "a sum that nobody shifted"])
def test_what_adds_the_wrong_peak_is_no_logsumexp_as_a_whole(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], X)
    assert graph.outputs[0] not in {idiom.output for idiom in idioms(graph)}
