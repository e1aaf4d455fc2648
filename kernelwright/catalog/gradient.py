"""Backward passes, written as MLX derives them or by hand."""

import mlx.core as mx

from kernelwright.catalog.activation import gelu_tanh
from kernelwright.catalog.entry import Function, entry


def pull_back(function: Function, primals: list[mx.array], cotangent: mx.array) -> list[mx.array]:
    """Return the gradient of `function` at `primals` along `cotangent`."""
    _, gradients = mx.vjp(function, primals, [cotangent])
    return list(gradients)


@entry("T[512,1024]", "T[512,1024]")
def silu_grad(x: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of SiLU."""
    s = mx.sigmoid(x)
    return cotangent * s * (1 + x * (1 - s))


@entry("T[512,1024]", "T[512,1024]")
def gelu_tanh_grad(x: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of tanh-approximated GELU."""
    return pull_back(gelu_tanh, [x], cotangent)[0]


@entry("T[512,1024]", "T[512,1024]", "T[512,1024]")
def swiglu_grad(gate: mx.array, up: mx.array, cotangent: mx.array) -> tuple[mx.array, mx.array]:
    """Gradients of the SiLU-gated unit."""
    s = mx.sigmoid(gate)
    return cotangent * up * s * (1 + gate * (1 - s)), cotangent * gate * s


@entry("T[512,1024]", "T[512,1024]")
def softmax_grad(y: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of softmax from its result."""
    return y * (cotangent - mx.sum(cotangent * y, axis=-1, keepdims=True))


@entry("T[512,1024]", "i32[512]")
def cross_entropy_grad(logits: mx.array, targets: mx.array) -> mx.array:
    """Gradient of softmax cross-entropy."""
    hot = mx.arange(logits.shape[-1])[None] == targets[:, None]
    return mx.softmax(logits, axis=-1) - hot.astype(logits.dtype)


@entry("T[512,1024]", "T[1024]", "T[512,1024]")
def rms_norm_grad(x: mx.array, weight: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of RMS normalization with respect to its input."""
    scale = mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + 1e-5)
    g = cotangent * weight
    return scale * g - x * scale**3 * mx.mean(g * x, axis=-1, keepdims=True)


@entry("T[512,1024]", "T[1024]", "T[512,1024]")
def layer_norm_grad(x: mx.array, weight: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of layer normalization with respect to its input."""
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    scale = mx.rsqrt(mx.mean(mx.square(centred), axis=-1, keepdims=True) + 1e-5)
    normal = centred * scale
    g = cotangent * weight
    inner = g - mx.mean(g, axis=-1, keepdims=True)
    return scale * (inner - normal * mx.mean(g * normal, axis=-1, keepdims=True))


@entry("T[512,1024]", "T[512,1024]")
def bias_grad(x: mx.array, cotangent: mx.array) -> mx.array:
    """Gradient of a bias under ReLU: a sum over rows."""
    return mx.sum(mx.where(x > 0, cotangent, 0), axis=0)


@entry("T[256,1024]")
def cumulative_sum_grad(cotangent: mx.array) -> mx.array:
    """Gradient of a running sum: the running sum from the end."""
    return mx.cumsum(cotangent, axis=-1, reverse=True)
