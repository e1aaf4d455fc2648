"""Rotary position embeddings."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[1,8,128,64]")
def rope(x: mx.array) -> mx.array:
    """MLX's own rotary embedding."""
    return mx.fast.rope(x, 64, traditional=False, base=10000.0, scale=1.0, offset=0)


@entry("T[1,8,128,64]")
def rope_traditional(x: mx.array) -> mx.array:
    """MLX's own rotary embedding of adjacent pairs."""
    return mx.fast.rope(x, 64, traditional=True, base=10000.0, scale=1.0, offset=0)


@entry("T[8,128,64]", "T[128,32]", "T[128,32]")
def rope_tables(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotary embedding of two halves, from tables."""
    first, second = mx.split(x, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


@entry("T[8,128,64]", "T[128,32]", "T[128,32]")
def rope_interleaved(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotary embedding of adjacent pairs, from tables."""
    even, odd = x[..., ::2], x[..., 1::2]
    turned = mx.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape)


@entry("T[8,128,64]", "T[128,16]", "T[128,16]")
def rope_partial(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotary embedding of the first half of the features."""
    turning, kept = mx.split(x, 2, axis=-1)
    first, second = mx.split(turning, 2, axis=-1)
    parts = [first * cos - second * sin, first * sin + second * cos, kept]
    return mx.concatenate(parts, axis=-1)


@entry("T[128,8,64]", "T[64]", "T[128,1,32]", "T[128,1,32]")
def head_norm_rope(x: mx.array, weight: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Normalization of every head, then its rotary embedding."""
    y = mx.fast.rms_norm(x, weight, 1e-5)
    first, second = mx.split(y, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


@entry("T[128,1536]", "T[128,1,32]", "T[128,1,32]")
def qkv_split_rope(
    qkv: mx.array, cos: mx.array, sin: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Packed projections split into heads, queries and keys turned."""
    heads = qkv.reshape(qkv.shape[0], 24, 64)
    q, k, v = heads[:, :16], heads[:, 16:20], heads[:, 20:]

    def turn(x: mx.array) -> mx.array:
        first, second = mx.split(x, 2, axis=-1)
        return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)

    return turn(q), turn(k), v
