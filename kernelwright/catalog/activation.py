"""Activations, alone and after a bias."""

import math

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,2048]")
def relu_squared(x: mx.array) -> mx.array:
    """ReLU, squared."""
    return mx.square(mx.maximum(x, 0))


@entry("T[512,2048]")
def silu(x: mx.array) -> mx.array:
    """Sigmoid linear unit."""
    return x * mx.sigmoid(x)


@entry("T[512,2048]")
def gelu(x: mx.array) -> mx.array:
    """Gaussian error linear unit, with erf."""
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


@entry("T[512,2048]")
def gelu_tanh(x: mx.array) -> mx.array:
    """Gaussian error linear unit, tanh approximation."""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@entry("T[512,2048]")
def quick_gelu(x: mx.array) -> mx.array:
    """Gaussian error linear unit, sigmoid approximation."""
    return x * mx.sigmoid(1.702 * x)


@entry("T[512,2048]")
def mish(x: mx.array) -> mx.array:
    """Mish: x times tanh of softplus."""
    return x * mx.tanh(mx.logaddexp(x, 0))


@entry("T[512,2048]")
def softplus(x: mx.array) -> mx.array:
    """Softplus, safe for large inputs."""
    return mx.logaddexp(x, 0)


@entry("T[512,2048]")
def elu(x: mx.array) -> mx.array:
    """Exponential linear unit."""
    return mx.where(x > 0, x, mx.expm1(x))


@entry("T[512,2048]")
def hard_swish(x: mx.array) -> mx.array:
    """Hard swish."""
    return x * mx.clip(x + 3, 0, 6) / 6


@entry("T[512,2048]", "T[2048]")
def bias_relu(x: mx.array, bias: mx.array) -> mx.array:
    """Bias, then ReLU."""
    return mx.maximum(x + bias, 0)


@entry("T[512,2048]", "T[2048]")
def bias_silu(x: mx.array, bias: mx.array) -> mx.array:
    """Bias, then SiLU."""
    y = x + bias
    return y * mx.sigmoid(y)


@entry("T[512,2048]", "T[2048]")
def bias_gelu_tanh(x: mx.array, bias: mx.array) -> mx.array:
    """Bias, then tanh-approximated GELU."""
    return gelu_tanh(x + bias)


@entry("T[512,2048]", "T[2048]", "T[512,2048]")
def bias_gelu_residual(x: mx.array, bias: mx.array, residual: mx.array) -> mx.array:
    """Bias, GELU, residual."""
    return residual + gelu_tanh(x + bias)


@entry("T[512,2048]", "bool[512,2048]")
def dropout_residual(x: mx.array, keep: mx.array) -> mx.array:
    """Dropout with a given mask at rate 0.1, then a residual of the input."""
    return x + mx.where(keep, x / 0.9, 0)


@entry("T[512,2048]")
def soft_cap(x: mx.array) -> mx.array:
    """Soft cap of logits at 30."""
    return 30 * mx.tanh(x / 30)
