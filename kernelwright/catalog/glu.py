"""Gated linear units, from two halves or two arrays."""

import mlx.core as mx

from kernelwright.catalog.activation import gelu_tanh
from kernelwright.catalog.entry import entry


@entry("T[512,2048]", "T[512,2048]")
def swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """SiLU-gated unit of two arrays."""
    return gate * mx.sigmoid(gate) * up


@entry("T[512,4096]")
def swiglu_packed(x: mx.array) -> mx.array:
    """SiLU-gated unit of the two halves of every row."""
    gate, up = mx.split(x, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


@entry("T[512,2048]", "T[512,2048]")
def geglu(gate: mx.array, up: mx.array) -> mx.array:
    """GELU-gated unit of two arrays."""
    return gelu_tanh(gate) * up


@entry("T[512,4096]")
def geglu_packed(x: mx.array) -> mx.array:
    """GELU-gated unit of the two halves of every row."""
    gate, up = mx.split(x, 2, axis=-1)
    return gelu_tanh(gate) * up


@entry("T[512,2048]", "T[2048]", "T[512,2048]", "T[2048]")
def swiglu_bias(gate: mx.array, gate_bias: mx.array, up: mx.array, up_bias: mx.array) -> mx.array:
    """SiLU-gated unit with a bias on both sides."""
    g = gate + gate_bias
    return g * mx.sigmoid(g) * (up + up_bias)


@entry("T[512,2048]", "T[512,2048]")
def swiglu_clipped(gate: mx.array, up: mx.array) -> mx.array:
    """The clipped, shifted gate of GPT-OSS."""
    g = mx.minimum(gate, 7.0)
    u = mx.clip(up, -7.0, 7.0)
    return g * mx.sigmoid(1.702 * g) * (u + 1)


@entry("T[512,2048]", "T[512,2048]")
def relu_glu(gate: mx.array, up: mx.array) -> mx.array:
    """ReLU-gated unit."""
    return mx.maximum(gate, 0) * up
