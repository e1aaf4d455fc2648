"""Idioms are named however people write them, with their operands and parameters."""

import math
from collections.abc import Callable

import mlx.core as mx
import pytest
from mlx.nn import losses
from mlx.nn.layers import activations

from kernelwright import ir
from kernelwright.ir import canonicalize, capture

X = mx.random.normal((4, 64), key=mx.random.key(0))
H = X.astype(mx.float16)
W = mx.ones((64,), mx.float16)
Q = mx.random.normal((1, 4, 8, 64), key=mx.random.key(1)).astype(mx.float16)


def written_rms_norm(x: mx.array, w: mx.array) -> mx.array:
    square = mx.mean(mx.square(x.astype(mx.float32)), axis=-1, keepdims=True)
    return w * (x * mx.rsqrt(square + 1e-6)).astype(x.dtype)


def divided_rms_norm(x: mx.array, w: mx.array) -> mx.array:
    return x / mx.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w


def written_layer_norm(x: mx.array, w: mx.array) -> mx.array:
    middle = x.mean(axis=-1, keepdims=True)
    spread = x.var(axis=-1, keepdims=True)
    return (x - middle) / mx.sqrt(spread + 1e-5) * w + w


def written_softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def written_logsumexp(x: mx.array) -> mx.array:
    m = x.max(axis=-1, keepdims=True)
    return mx.log(mx.exp(x - m).sum(axis=-1, keepdims=True)) + m


def written_attention(q: mx.array, k: mx.array, v: mx.array, m: mx.array) -> mx.array:
    return mx.softmax((q * 0.125) @ k.swapaxes(-1, -2) + m, axis=-1) @ v


def fast_attention(q: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, q, q, scale=0.125, mask="causal")


def grouped_attention(q: mx.array) -> mx.array:
    k = q[:, :2]
    return mx.fast.scaled_dot_product_attention(q, k, k, scale=0.125)


def sink_attention(q: mx.array, s: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, q, q, scale=0.125, sinks=s)


def halves_swiglu(x: mx.array) -> mx.array:
    gate, up = mx.split(x, 2, axis=-1)
    result: mx.array = activations.silu(gate) * up
    return result


def headwise_rms_norm(x: mx.array) -> mx.array:
    heads = mx.split(x, 2, axis=-1)[1].reshape(4, 2, 16).transpose(1, 0, 2)
    return mx.fast.rms_norm(heads, None, 1e-5)


def positioned(x: mx.array, offset: mx.array | int) -> mx.array:
    return mx.fast.rope(x, 8, traditional=False, base=1e4, scale=1.0, offset=offset)


def rotate(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


def rope(q: mx.array, traditional: bool) -> mx.array:
    return mx.fast.rope(q, 64, traditional=traditional, base=1e4, scale=1.0, offset=3)


@pytest.mark.parametrize(
    ("function", "arrays", "name"),
    [
        (lambda x, w: mx.fast.rms_norm(x, w, 1e-5), [H, W], "rms_norm"),
        (lambda x, w: mx.fast.rms_norm(x, 1 + w, 1e-5), [H, W], "add+rms_norm"),
        (lambda x: mx.fast.rms_norm(x, None, 1e-5), [H], "rms_norm"),
        (written_rms_norm, [H, W], "rms_norm"),
        (divided_rms_norm, [H, W], "rms_norm"),
        (lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5), [H, W], "layer_norm"),
        (written_layer_norm, [H, W], "layer_norm"),
        (lambda x: mx.softmax(x, axis=-1), [H], "softmax"),
        (written_softmax, [X], "softmax"),
        (lambda x: mx.softmax(mx.where(x > 0, x, -mx.inf), axis=-1), [X], "greater+select+softmax"),
        (lambda x: mx.logsumexp(x, axis=-1), [X], "logsumexp"),
        (written_logsumexp, [X], "logsumexp"),
        (lambda x: x - mx.logsumexp(x, axis=-1, keepdims=True), [X], "log_softmax"),
        (lambda x: mx.softmax(x.reshape(4, 4, 16), axis=-1), [X], "softmax"),
        (lambda x: losses.cross_entropy(x, mx.arange(4)), [X], "cross_entropy"),
        (lambda x: mx.var(x, axis=-1), [X], "variance"),
        (activations.silu, [X], "silu"),
        (lambda x: x / (1 + mx.exp(-x)), [X], "silu"),
        (lambda x, y: activations.silu(x) * y, [X, X], "swiglu"),
        (activations.gelu, [X], "gelu"),
        (lambda x: 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5))), [H], "gelu"),
        (lambda x, y: activations.gelu(x) * y, [X, X], "geglu"),
        (activations.gelu_approx, [X], "gelu_tanh"),
        (activations.gelu_fast_approx, [X], "gelu_fast"),
        (lambda x: activations.gelu(x * 3), [X], "elementwise:multiply*gelu"),
        (lambda x: activations.gelu_approx(x * 3), [X], "elementwise:multiply*gelu_tanh"),
        (lambda x, w: mx.fast.rms_norm(x * 3, w, 1e-5), [H, W], "multiply+rms_norm"),
        (lambda x: activations.silu(x * 3), [X], "elementwise:multiply*silu"),
        (halves_swiglu, [X], "swiglu"),
        (headwise_rms_norm, [X], "rms_norm"),
        (rotate, [Q, Q[..., :32], Q[..., 32:]], "rope"),
        (positioned, [Q, mx.array(3)], "rope"),
        (lambda x: positioned(x * 3, 7), [Q], "multiply+rope"),
        (activations.relu, [X], "relu"),
        (activations.relu2, [X], "relu_squared"),
        (activations.softplus, [X], "softplus"),
        (written_attention, [Q, Q, Q, Q[..., :8]], "attention"),
        (grouped_attention, [Q], "attention"),
        (sink_attention, [Q, mx.ones((4,), mx.float16)], "attention"),
        (lambda x: x + 1, [X], "add"),
        (lambda x: x.T, [X], "views"),
        (lambda x: mx.exp(x) * 2 - x, [X], "elementwise:exp*multiply*subtract"),
    ],
)
def test_operations_have_the_names_that_people_use(
    function: Callable[..., object], arrays: list[mx.array], name: str
) -> None:
    assert ir.operation(canonicalize(capture(function, *arrays))) == name


def only_idiom(function: Callable[..., object], *arrays: mx.array) -> ir.Idiom:
    (found,) = ir.idioms(canonicalize(capture(function, *arrays)))
    return found


def test_a_norm_shows_its_axes_epsilon_and_operands() -> None:
    idiom = only_idiom(lambda x, w: mx.fast.layer_norm(x, w, w * 2, 1e-3), H, W)
    assert idiom.parameter("axes") == (1,)
    assert idiom.parameter("epsilon") == pytest.approx(1e-3)
    assert [role for role, _ in idiom.operands] == ["x", "weight", "bias"]
    assert idiom.operands[0][1] == 0


def test_attention_shows_scale_mask_and_sinks() -> None:
    causal = only_idiom(fast_attention, Q)
    assert causal.parameter("scale") == 0.125
    assert causal.parameter("is_causal") == 1
    assert "mask" in dict(causal.operands)
    sinks = only_idiom(sink_attention, Q, mx.ones((4,), mx.float16))
    assert sinks.parameter("has_sinks") == 1


@pytest.mark.parametrize(("traditional", "layout"), [(True, "interleaved"), (False, "halves")])
def test_rope_shows_how_it_pairs(traditional: bool, layout: str) -> None:
    idiom = only_idiom(lambda q: rope(q, traditional), Q)
    assert (idiom.name, idiom.parameter("layout")) == ("rope", layout)


def test_idioms_share_no_node_and_stay_inside_their_operands() -> None:
    def block(x: mx.array, w: mx.array) -> mx.array:
        h = mx.fast.rms_norm(x, w, 1e-5)
        gate: mx.array = activations.silu(h)
        return x + gate * mx.softmax(h, axis=-1)

    graph = canonicalize(capture(block, H, W))
    found = ir.idioms(graph)
    indices = [i for idiom in found for i in idiom.indices]
    assert len(indices) == len(set(indices))
    assert [idiom.name for idiom in found] == ["rms_norm", "swiglu", "softmax"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.sigmoid(x) * mx.tanh(x),
        lambda x: x * mx.rsqrt(mx.mean(mx.abs(x), axis=-1, keepdims=True)),
        lambda x: mx.exp(x) / mx.exp(x * 2).sum(axis=-1, keepdims=True),
        lambda x: mx.maximum(x, 1.0),
    ],
)
def test_what_only_looks_alike_is_not_named(function: Callable[[mx.array], mx.array]) -> None:
    assert ir.idioms(canonicalize(capture(function, X))) == ()


def test_a_description_names_values_types_and_idioms() -> None:
    def norm(x: mx.array, weight: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, weight, 1e-5)

    assert ir.describe(canonicalize(capture(norm, H, W))) == "\n".join(
        [
            "inputs  x: f16[4,64], weight: f16[64]",
            "%0 = cast(x, dtype=f32)  f32[4,64]",
            "%1 = square(%0)  f32[4,64]",
            "%2 = mean(%1, axes=(1), ddof=0, form=multiply)  f32[4,1]",
            "%3 = broadcast(1e-05, shape=(4,1))  f32[4,1]",
            "%4 = add(%2, %3)  f32[4,1]",
            "%5 = rsqrt(%4)  f32[4,1]",
            "%6 = broadcast(%5, shape=(4,64))  f32[4,64]",
            "%7 = multiply(%0, %6)  f32[4,64]",
            "%8 = cast(%7, dtype=f16)  f16[4,64]",
            "%9 = broadcast(weight, shape=(4,64))  f16[4,64]",
            "%10 = multiply(%8, %9)  f16[4,64]",
            "return %10",
            "idiom   rms_norm(x=x, weight=weight) axes=(1,) epsilon=1e-05 -> %10",
        ]
    )
