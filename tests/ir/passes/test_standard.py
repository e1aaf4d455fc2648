"""One fingerprint for every safe way to write the same real function."""

import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.nn import losses
from mlx.nn.layers import activations

from kernelwright import ir
from kernelwright.ir import Graph, canonicalize, capture, standardize
from kernelwright.plan import partition
from tests.ir.programs import Program, example, programs

Function = Callable[..., mx.array]
X = mx.random.normal((4, 64), key=mx.random.key(0))
Y, W, T = X * 2, mx.ones((64,)), mx.array([0, 3, 5, 63])
EPS = 1e-5
CUBE, ROOT = 0.044715, math.sqrt(2 / math.pi)


def highest(x: mx.array) -> mx.array:
    return mx.max(x, axis=-1, keepdims=True)


def total(x: mx.array) -> mx.array:
    return mx.sum(x, axis=-1, keepdims=True)


def average(x: mx.array) -> mx.array:
    return mx.mean(x, axis=-1, keepdims=True)


def lse(x: mx.array) -> mx.array:
    return mx.logsumexp(x, axis=-1, keepdims=True)


def shifted(x: mx.array) -> mx.array:
    return mx.exp(x - highest(x))


def written_lse(x: mx.array) -> mx.array:
    return highest(x) + mx.log(total(shifted(x)))


def at(x: mx.array, t: mx.array) -> mx.array:
    return mx.take_along_axis(x, t[:, None], axis=-1)


def tanh_gate(z: mx.array) -> mx.array:
    return 1 + mx.tanh(z)


SOFTMAX: list[Function] = [
    lambda x: mx.softmax(x, axis=-1),
    lambda x: mx.softmax(x, axis=-1, precise=True),
    lambda x: shifted(x) / total(shifted(x)),
    lambda x: shifted(x) * (1 / total(shifted(x))),
    lambda x: mx.exp(x - mx.stop_gradient(highest(x))) * mx.reciprocal(total(shifted(x))),
    lambda x: mx.exp(x - lse(x)),
    lambda x: mx.exp(activations.log_softmax(x)),
]
LOGSUMEXP: list[Function] = [
    lambda x: mx.logsumexp(x, axis=-1),
    lambda x: lse(x).squeeze(-1),
]
WRITTEN_LOGSUMEXP: list[Function] = [
    lambda x: written_lse(x).squeeze(-1),
    lambda x: highest(x).squeeze(-1) + mx.log(mx.sum(shifted(x), axis=-1)),
]
LOG_SOFTMAX: list[Function] = [
    activations.log_softmax,
    lambda x: x - lse(x),
    lambda x: x - highest(x) - mx.log(total(shifted(x))),
]
CROSS_ENTROPY: list[Function] = [
    losses.cross_entropy,
    lambda x, t: -at(activations.log_softmax(x), t).squeeze(-1),
    lambda x, t: -at(x - lse(x), t).squeeze(-1),
]
PLAIN_CROSS_ENTROPY: list[Function] = [
    lambda x, t: (lse(x) - at(x, t)).squeeze(-1),
    lambda x, t: -(at(x, t) - lse(x)).squeeze(-1),
]
SHIFTED = (SOFTMAX[5], LOG_SOFTMAX[1], CROSS_ENTROPY[2])
"""A row with an infinity becomes NaN as a whole, as MLX's own log-softmax has it."""
RMS_NORM: list[Function] = [
    lambda x, w: mx.fast.rms_norm(x, w, EPS),
    lambda x, w: x * mx.rsqrt(average(x * x) + EPS) * w,
    lambda x, w: w * (x * mx.rsqrt(EPS + average(x**2))),
    lambda x, w: x / mx.sqrt(average(mx.square(x)) + EPS) * w,
    lambda x, w: x * (1 / mx.sqrt(total(x * x) / 64 + EPS)) * w,
    lambda x, w: x * (w * mx.power(average(mx.square(x)) + EPS, -0.5)),
    lambda x, w: (w * x) * mx.rsqrt(average(mx.square(x)) + EPS),
]
LAYER_NORM: list[Function] = [
    lambda x, w: mx.fast.layer_norm(x, w, w * 2, EPS),
    lambda x, w: (x - average(x)) * mx.rsqrt(x.var(axis=-1, keepdims=True) + EPS) * w + w * 2,
    lambda x, w: w * 2 + w * ((x - average(x)) / mx.sqrt(average((x - average(x)) ** 2) + EPS)),
]
SILU: list[Function] = [
    activations.silu,
    lambda x: mx.sigmoid(x) * x,
    lambda x: x / (1 + mx.exp(-x)),
    lambda x: x * mx.reciprocal(mx.exp(-x) + 1),
    lambda x: 0.5 * x * tanh_gate(0.5 * x),
]
SWIGLU: list[Function] = [
    lambda g, u: activations.silu(g) * u,
    lambda g, u: u * activations.silu(g),
    lambda g, u: g * u * mx.sigmoid(g),
    lambda g, u: mx.sigmoid(g) * (g * u),
    lambda g, u: u * g / (1 + mx.exp(-g)),
]
GELU: list[Function] = [
    activations.gelu,
    lambda x: 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5))),
    lambda x: x * (1 + mx.erf(x / math.sqrt(2))) * 0.5,
    lambda x: x * (0.5 * (1 + mx.erf(x / math.sqrt(2)))),
]
GELU_TANH: list[Function] = [
    activations.gelu_approx,
    lambda x: 0.5 * x * tanh_gate(ROOT * (x + CUBE * x * x * x)),
    lambda x: 0.5 * x * tanh_gate(x * 0.7978845608 * (1 + CUBE * x * x)),
    lambda x: x * 0.5 * tanh_gate(ROOT * x * (1 + CUBE * mx.square(x))),
]
WAYS: dict[str, tuple[list[mx.array], list[Function]]] = {
    "softmax": ([X], SOFTMAX),
    "logsumexp": ([X], LOGSUMEXP),
    "a log-sum-exp written out": ([X], WRITTEN_LOGSUMEXP),
    "log_softmax": ([X], LOG_SOFTMAX),
    "cross_entropy": ([X, T], CROSS_ENTROPY),
    "a cross-entropy without a shift": ([X, T], PLAIN_CROSS_ENTROPY),
    "rms_norm": ([X, W], RMS_NORM),
    "layer_norm": ([X, W], LAYER_NORM),
    "silu": ([X], SILU),
    "swiglu": ([X, Y], SWIGLU),
    "gelu": ([X], GELU),
    "gelu_tanh": ([X], GELU_TANH),
}
UNLIKE: dict[str, tuple[Function, Function]] = {
    "a softmax without its shift overflows": (
        lambda x: mx.softmax(x, axis=-1),
        lambda x: mx.exp(x) / total(mx.exp(x)),
    ),
    "a log-sum-exp without its shift overflows": (
        lambda x: mx.logsumexp(x, axis=-1),
        lambda x: mx.log(mx.sum(mx.exp(x), axis=-1)),
    ),
    "the logarithm of a softmax loses what underflows": (
        activations.log_softmax,
        lambda x: mx.log(mx.softmax(x, axis=-1)),
    ),
    "a log-sum-exp written out is NaN where a row holds an infinity": (
        LOGSUMEXP[0],
        WRITTEN_LOGSUMEXP[0],
    ),
    "a variance as a difference of squares cancels": (
        lambda x: mx.var(x, axis=-1),
        lambda x: mx.mean(x * x, axis=-1) - mx.square(mx.mean(x, axis=-1)),
    ),
    "exp(x) / (1 + exp(x)) overflows": (
        mx.sigmoid,
        lambda x: mx.exp(x) / (1 + mx.exp(x)),
    ),
    "another constant is another function": (
        activations.gelu_approx,
        lambda x: 0.5 * x * tanh_gate(0.8 * (x + CUBE * x**3)),
    ),
    "another epsilon is another norm": (RMS_NORM[0], lambda x, w: mx.fast.rms_norm(x, w, 1e-6)),
    "half a square root of what may be negative": (
        lambda x: mx.sqrt(x),
        lambda x: mx.power(x, 0.5),
    ),
}


def standard(function: Function, *arrays: mx.array) -> Graph:
    return standardize(canonicalize(capture(function, *arrays)))


@pytest.mark.parametrize("name", list(WAYS))
def test_all_safe_ways_to_write_it_share_a_fingerprint(name: str) -> None:
    arrays, ways = WAYS[name]
    graphs = [standard(way, *arrays) for way in ways]
    assert len({g.fingerprint for g in graphs}) == 1, "\n\n".join(map(ir.describe, graphs))


@pytest.mark.parametrize(("first", "second"), UNLIKE.values(), ids=list(UNLIKE))
def test_what_is_not_safe_stays_another_task(first: Function, second: Function) -> None:
    arrays = [X, W] if first is RMS_NORM[0] else [X]
    assert standard(first, *arrays).fingerprint != standard(second, *arrays).fingerprint


def test_the_dtype_in_which_a_norm_is_computed_is_part_of_the_task() -> None:
    def wide(x: mx.array, w: mx.array) -> mx.array:
        return RMS_NORM[1](x.astype(mx.float32), w.astype(mx.float32)).astype(x.dtype)

    half = [X.astype(mx.float16), W.astype(mx.float16)]
    found = {standard(way, *half).fingerprint for way in (RMS_NORM[1], wide)}
    assert len(found) == 2


@pytest.mark.parametrize("name", list(WAYS))
def test_the_standard_form_is_the_same_function_and_as_accurate(name: str) -> None:
    arrays, ways = WAYS[name]
    inputs = [np.array(a) for a in arrays]
    wide = [a * 40 if a.dtype == np.float32 and a.shape == X.shape else a for a in inputs]
    for way in ways:
        graph = canonicalize(capture(way, *arrays))
        form = standardize(graph)
        ir.verify(form)
        assert standardize(form) == form
        for given_ in (inputs, wide):
            (exact,), (found,) = ir.reference(graph, given_), ir.reference(form, given_)
            np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-12)
            computed = np.array(ir.interpret(form, *map(mx.array, given_))[0])
            # What is subtracted from a log-sum-exp loses what its own size loses.
            largest = max(np.abs(a).max() for a in given_)
            np.testing.assert_allclose(computed, exact, rtol=2e-5, atol=1e-7 * largest + 1e-6)


def _kinds(result: np.ndarray) -> np.ndarray:
    """Tell numbers, NaN and the two infinities apart."""
    infinite = np.where(np.isinf(result), np.sign(result), 0)
    return np.where(np.isnan(result), 2, infinite)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, 3e38, -3e38])
@pytest.mark.parametrize("name", list(WAYS))
def test_what_is_infinite_or_undefined_stays_so(name: str, special: float) -> None:
    arrays, ways = WAYS[name]
    drawn = np.random.default_rng(1)
    inputs = [np.array(a) for a in arrays]
    for array in inputs:
        if array.dtype == np.float32:
            array.flat[drawn.integers(0, array.size, max(1, array.size // 40))] = special
            if array.ndim > 1:
                array[-1] = special
    for way in ways:
        if special == np.inf and way in SHIFTED:
            continue
        graph = canonicalize(capture(way, *arrays))
        form = standardize(graph)
        wanted, found = ir.reference(graph, inputs), ir.reference(form, inputs)
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(_kinds(b), _kinds(a))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(program=programs(), drawn=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_any_program_keeps_its_meaning(program: Program, drawn: int) -> None:
    graph = canonicalize(capture(program, *example(0)))
    form = standardize(graph)
    ir.verify(form)
    assert (form.input_types, form.output_types) == (graph.input_types, graph.output_types)
    arrays = [np.array(x) for x in example(1)]
    for a, b in zip(ir.reference(graph, arrays), ir.reference(form, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for special in (-np.inf, np.nan):
        arrays[0].flat[drawn] = special
        for a, b in zip(ir.reference(graph, arrays), ir.reference(form, arrays), strict=True):
            np.testing.assert_array_equal(_kinds(b), _kinds(a))


def test_a_region_is_extracted_in_the_standard_form() -> None:
    tasks = []
    for way in SILU:
        graph = canonicalize(capture(lambda x, y, way=way: way(x) + y, X, Y))
        (region,) = partition(graph)
        tasks.append(region.extract())
    assert len({t.fingerprint for t in tasks}) == 1
    assert tasks[0].input_types == (tasks[0].types[0],) * 2
