"""Products with a matrix, and what follows them, for few tokens."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[1,256]", "T[512,256]", "T[512]")
def linear_silu(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """One token through a linear layer, then SiLU."""
    y = x @ weight.T + bias
    return y * mx.sigmoid(y)


@entry("T[4,512]", "T[512,256]", "T[4,256]")
def linear_residual(x: mx.array, weight: mx.array, residual: mx.array) -> mx.array:
    """Four tokens projected, then the residual."""
    return residual + x @ weight


@entry("T[1,256]", "T[512,256]", "T[512,256]")
def swiglu_projection(x: mx.array, gate: mx.array, up: mx.array) -> mx.array:
    """One token through the gate and the up projection of a gated unit."""
    y = x @ gate.T
    return y * mx.sigmoid(y) * (x @ up.T)


@entry("T[2,256]", "T[256,1024]")
def swiglu_projection_packed(x: mx.array, weight: mx.array) -> mx.array:
    """Two tokens through a gated unit whose projections stand side by side."""
    gate, up = mx.split(x @ weight, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


@entry("T[1,256]", "T[1024,256]")
def logits_soft_cap(x: mx.array, weight: mx.array) -> mx.array:
    """One token's logits, capped at 30."""
    return mx.tanh(x @ weight.T / 30.0) * 30.0


@entry("T[1,256]", "i8[512,256]", "T[512,1]")
def linear_int8(x: mx.array, weight: mx.array, scale: mx.array) -> mx.array:
    """One token times a matrix of bytes with a scale a row."""
    return x @ (weight.astype(x.dtype) * scale).T


@entry("T[8,128]", "T[256,128]", "T[256]")
def linear_gelu_tanh(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Eight tokens through a linear layer, then tanh-approximated GELU."""
    y = x @ weight.T + bias
    return 0.5 * y * (1 + mx.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))
