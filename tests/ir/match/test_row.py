"""Rows are recognised however people write them, and nothing that only looks like them."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright.ir import Graph, canonicalize, capture, idioms, reference, standardize

ROWS, COLUMNS = 3, 8
X = mx.zeros((ROWS, COLUMNS))
T = mx.zeros((ROWS, 1), mx.int32)
LOG2_E = np.log2(np.e).item()
Function = Callable[..., mx.array]


@dataclass(frozen=True)
class Way:
    """How a row is written: each choice changes the text and not what it computes."""

    axis: int
    keeps: bool
    views: bool
    swaps: bool
    inverse: str
    copies: bool
    picks: str
    base: str

    def powers(self, x: mx.array) -> mx.array:
        """Return the exponentials of what each element is above its row's largest."""
        if self.base == "scaled":
            return mx.power(2.0, LOG2_E * x - self.peak(x * LOG2_E))
        if self.base == "scaled apart":
            return mx.power(2.0, x * LOG2_E - LOG2_E * self.peak(x))
        shifted = self.viewed(x - self.peak(x))
        return mx.exp(shifted) if self.base == "e" else mx.power(2.0, shifted * LOG2_E)

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
        e = self.powers(x)
        if self.inverse == "division":
            return e / self.total(e)
        if self.inverse == "logarithm":
            return mx.exp(self.log_softmax(x))
        inverse = 1 / self.total(e) if self.inverse == "reciprocal" else self.total(e) ** -1
        return inverse * e if self.swaps else e * inverse

    def logsumexp(self, x: mx.array) -> mx.array:
        total = self.total(self.powers(x))
        bits = self.base == "scaled"
        logarithm = mx.log2(total) * np.log(2).item() if bits else mx.log(total)
        return self.plus(logarithm, self.peak(x))

    def log_softmax(self, x: mx.array) -> mx.array:
        return x - self.viewed(self.logsumexp(x))

    def cross_entropy(self, x: mx.array, t: mx.array) -> mx.array:
        if self.picks == "of a log-softmax":
            return -mx.take_along_axis(self.log_softmax(x), t, axis=-1)
        if self.picks == "by places":
            return self.logsumexp(x).squeeze(-1) - x[mx.arange(ROWS), t.squeeze(-1)]
        return self.logsumexp(x) - mx.take_along_axis(x, t, axis=-1)


ways = st.builds(
    Way,
    st.sampled_from([-1, 1]),
    *[st.booleans()] * 3,
    st.sampled_from(["division", "reciprocal", "power", "logarithm"]),
    st.booleans(),
    st.sampled_from(["of the scores", "of a log-softmax", "by places"]),
    st.sampled_from(["e", "two", "scaled", "scaled apart"]),
)


@dataclass(frozen=True)
class NormWay:
    """How a norm is written."""

    square: Callable[[mx.array], mx.array]
    root: str
    mean: Callable[[mx.array], mx.array]
    epsilon_first: bool
    weight: str
    spread: str

    def inverse_root(self, x: mx.array, spread: mx.array) -> mx.array:
        shifted = EPSILON + spread if self.epsilon_first else spread + EPSILON
        if self.root == "division":
            return x / mx.sqrt(shifted)
        if self.root == "rsqrt":
            return mx.rsqrt(shifted) * x
        return (shifted**-0.5 if self.root == "power" else 1 / mx.sqrt(shifted)) * x

    def scaled(self, x: mx.array, spread: mx.array, weight: mx.array) -> mx.array:
        if self.weight == "before":
            return self.inverse_root(weight * x, spread)
        return self.inverse_root(x, spread) * weight

    def rms_norm(self, x: mx.array, weight: mx.array) -> mx.array:
        return self.scaled(x, self.mean(self.square(x)), weight)

    def layer_norm(self, x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
        middle = self.mean(x)
        centred = x - middle
        if self.spread == "squares":
            spread = self.mean(self.square(x)) - self.square(middle)
        else:
            spread = self.mean(self.square(centred))
        return bias + self.scaled(centred, spread, weight)


EPSILON = 1e-5
norm_ways = st.builds(
    NormWay,
    st.sampled_from([mx.square, lambda v: v * v, lambda v: v**2, lambda v: mx.abs(v) ** 2]),
    st.sampled_from(["division", "rsqrt", "power", "reciprocal"]),
    st.sampled_from(
        [
            lambda v: v.mean(axis=-1, keepdims=True),
            lambda v: v.mean(axis=1)[:, None],
            lambda v: v.sum(axis=-1, keepdims=True) / v.shape[-1],
        ]
    ),
    st.booleans(),
    st.sampled_from(["before", "after"]),
    st.sampled_from(["centred", "squares"]),
)


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


@settings(max_examples=40, deadline=None)
@given(norm_ways)
def test_every_way_to_write_a_norm_has_its_name(way: NormWay) -> None:
    weight = mx.ones((COLUMNS,))
    assert names(graph_of(way.rms_norm, X, weight)) == {"rms_norm"}
    assert names(graph_of(way.layer_norm, X, weight, weight)) == {"layer_norm"}


@settings(max_examples=10, deadline=None)
@given(ways)
def test_a_loss_keeps_its_name_in_its_standard_form(way: Way) -> None:
    graph = graph_of(way.cross_entropy, X, T)
    assert "cross_entropy" in names(standardize(graph))


@settings(max_examples=25, deadline=None)
@given(ways)
def test_every_way_to_write_a_softmax_has_one_form(way: Way) -> None:
    # A log-sum-exp that is written out may be subtracted from anything.
    assume(way.inverse != "logarithm")
    form, written = graph_of(lambda x: mx.softmax(x, axis=-1), X), graph_of(way.softmax, X)
    assert standardize(written).fingerprint == standardize(form).fingerprint
    x = np.random.default_rng(0).normal(size=X.shape)
    # The factor is rounded to float32.
    assert np.allclose(reference(form, [x])[0], reference(written, [x])[0], rtol=1e-6)


def _powers(x: mx.array) -> mx.array:
    return mx.exp(x - x.max(axis=-1, keepdims=True))


def _total(x: mx.array) -> mx.array:
    return _powers(x).sum(axis=-1, keepdims=True)


def _of_base(base: float, x: mx.array, peaks: mx.array) -> mx.array:
    e = mx.power(base, x - peaks.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


NEAR_MISSES: dict[str, Function] = {
    "a total over its powers": lambda x: _total(x) / _powers(x),
    "powers of something else": lambda x: mx.exp(x * 2 - x.max(-1, keepdims=True)) / _total(x),
    "a total of others": lambda x: _powers(x) / mx.exp(x).sum(axis=-1, keepdims=True),
    "another inverse": lambda x: _powers(x) * (2 / _total(x)),
    "powers of two": lambda x: mx.power(2.0, x) / mx.power(2.0, x).sum(axis=-1, keepdims=True),
    "powers of three": lambda x: _of_base(3.0, LOG2_E * x, LOG2_E * x),
    "another factor": lambda x: _of_base(2.0, 1.4 * x, 1.4 * x),
    "a peak without its factor": lambda x: _of_base(2.0, LOG2_E * x, x),
    "a factor of the peak alone": lambda x: _of_base(2.0, x, LOG2_E * x),
    "a difference": lambda x: _powers(x) - _total(x),
    "a logarithm of two": lambda x: mx.log2(_total(x)) + x.max(axis=-1, keepdims=True),
    "another peak": lambda x: mx.log(_total(x)) + x.min(axis=-1, keepdims=True),
    "a larger spread": lambda x: x * mx.rsqrt(mx.maximum((x * x).mean(-1, keepdims=True), 1e-5)),
    "a sum for a mean": lambda x: x * mx.rsqrt((x * x).sum(-1, keepdims=True) + 1e-5),
    "a cube for a square": lambda x: x * mx.rsqrt((x**3).mean(-1, keepdims=True) + 1e-5),
    "another root": lambda x: x * ((x * x).mean(-1, keepdims=True) + 1e-5) ** -0.25,
    "a root that is not inverse": lambda x: x * mx.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    "squares of another mean": lambda x: (
        x * mx.rsqrt((x * x).mean(-1, keepdims=True) - x.max(-1, keepdims=True) ** 2)
    ),
    "a sum that nobody shifted": lambda x: (
        mx.log(mx.exp(x).sum(axis=-1, keepdims=True)) + x.max(axis=-1, keepdims=True)
    ),
}
NAMED = {"softmax", "log_softmax", "cross_entropy", "rms_norm", "layer_norm"}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_has_no_name_and_keeps_its_meaning(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], X)
    assert names(graph).isdisjoint(NAMED)
    standard = standardize(graph)
    x = np.random.default_rng(0).normal(size=X.shape)
    (written,), (rewritten,) = reference(graph, [x]), reference(standard, [x])
    assert np.allclose(written, rewritten, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", ["another peak", "a sum that nobody shifted"])
def test_what_adds_the_wrong_peak_is_no_logsumexp_as_a_whole(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], X)
    assert graph.outputs[0] not in {idiom.output for idiom in idioms(graph)}
