"""Normalizations, with what stands before and after them."""

import mlx.core as mx

from kernelwright.catalog.entry import entry

EPS = 1e-5


@entry("T[512,2048]", "T[2048]")
def rms_norm(x: mx.array, weight: mx.array) -> mx.array:
    """Root-mean-square normalization."""
    return mx.fast.rms_norm(x, weight, EPS)


@entry("T[512,2048]")
def rms_norm_bare(x: mx.array) -> mx.array:
    """Root-mean-square normalization without a weight."""
    return x * mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + EPS)


@entry("T[512,2048]", "T[2048]")
def rms_norm_offset(x: mx.array, weight: mx.array) -> mx.array:
    """Gemma's root-mean-square normalization: the weight is an offset from one."""
    return mx.fast.rms_norm(x, 1.0 + weight, EPS)


@entry("T[512,2048]", "T[512,2048]", "T[2048]")
def residual_rms_norm(
    x: mx.array, residual: mx.array, weight: mx.array
) -> tuple[mx.array, mx.array]:
    """Residual sum and its root-mean-square normalization, both returned."""
    h = x + residual
    return h, mx.fast.rms_norm(h, weight, EPS)


@entry("T[512,2048]", "T[512,2048]", "T[2048]")
def rms_norm_residual(x: mx.array, residual: mx.array, weight: mx.array) -> mx.array:
    """Normalization of the branch, then the residual."""
    return residual + mx.fast.rms_norm(x, weight, EPS)


@entry("T[512,2048]", "T[2048]", "T[512,2048]")
def rms_norm_gated(x: mx.array, weight: mx.array, gate: mx.array) -> mx.array:
    """Normalization, then a SiLU gate, as state-space blocks end."""
    return mx.fast.rms_norm(x, weight, EPS) * gate * mx.sigmoid(gate)


@entry("T[512,2048]", "T[2048]", "T[2048]")
def layer_norm(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Layer normalization."""
    return mx.fast.layer_norm(x, weight, bias, EPS)


@entry("T[512,2048]")
def layer_norm_bare(x: mx.array) -> mx.array:
    """Layer normalization without weight and bias, written out."""
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    return centred * mx.rsqrt(mx.mean(mx.square(centred), axis=-1, keepdims=True) + EPS)


@entry("T[512,2048]", "T[512,2048]", "T[2048]", "T[2048]")
def residual_layer_norm(
    x: mx.array, residual: mx.array, weight: mx.array, bias: mx.array
) -> tuple[mx.array, mx.array]:
    """Residual sum and its layer normalization, both returned."""
    h = x + residual
    return h, mx.fast.layer_norm(h, weight, bias, EPS)


@entry("T[512,2048]", "T[2048]", "T[2048]")
def layer_norm_gelu(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Layer normalization, then GELU."""
    y = mx.fast.layer_norm(x, weight, bias, EPS)
    return y * mx.sigmoid(1.702 * y)


@entry("T[512,2048]", "T[2048]", "T[2048]", "bool[512,2048]")
def layer_norm_dropout(x: mx.array, weight: mx.array, bias: mx.array, keep: mx.array) -> mx.array:
    """Layer normalization, then dropout with a given mask at rate 0.1."""
    return mx.where(keep, mx.fast.layer_norm(x, weight, bias, EPS) / 0.9, 0)


@entry("T[512,1024]", "T[512,1024]", "T[512,1024]")
def adaptive_layer_norm(x: mx.array, scale: mx.array, shift: mx.array) -> mx.array:
    """Layer normalization with a scale and a shift per element, as diffusion models have it."""
    return mx.fast.layer_norm(x, None, None, EPS) * (1 + scale) + shift


@entry("T[256,8,64]", "T[64]")
def head_rms_norm(x: mx.array, weight: mx.array) -> mx.array:
    """Root-mean-square normalization of every attention head."""
    return mx.fast.rms_norm(x, weight, EPS)


@entry("T[8,1024,32]", "T[32]", "T[32]")
def group_norm(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Group normalization, eight groups of the last axis."""
    batch, length, channels = x.shape
    groups = x.reshape(batch, length, 8, channels // 8)
    mean = mx.mean(groups, axis=(1, 3), keepdims=True)
    variance = mx.var(groups, axis=(1, 3), keepdims=True)
    normal = (groups - mean) * mx.rsqrt(variance + EPS)
    return normal.reshape(batch, length, channels) * weight + bias


@entry("T[512,2048]")
def l2_normalize(x: mx.array) -> mx.array:
    """Every row divided by its length."""
    return x * mx.rsqrt(mx.sum(mx.square(x), axis=-1, keepdims=True) + 1e-6)


@entry("T[512,2048]", "T[2048]")
def rms_norm_quantize(x: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
    """Normalization, then rounding to int8 with a scale per row."""
    y = mx.fast.rms_norm(x, weight, EPS).astype(mx.float32)
    scale = mx.max(mx.abs(y), axis=-1, keepdims=True) / 127.0 + 1e-8
    return mx.round(y / scale).astype(mx.int8), scale
