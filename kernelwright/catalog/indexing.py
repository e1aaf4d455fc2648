"""Gathers and scatters with arithmetic, and selection."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[1000,256]", "i32[128]")
def embedding(table: mx.array, tokens: mx.array) -> mx.array:
    """Rows of a table."""
    return table[tokens]


@entry("T[1000,256]", "i32[128]", "T[128,256]")
def embedding_add(table: mx.array, tokens: mx.array, positions: mx.array) -> mx.array:
    """Scaled rows of a table plus position embeddings."""
    return table[tokens] * 16 + positions


@entry("T[256,64]", "i32[256,8]")
def take_along_rows(x: mx.array, indices: mx.array) -> mx.array:
    """Chosen elements of every row."""
    return mx.take_along_axis(x, indices, axis=-1)


@entry("T[512,64]")
def top_4_values(x: mx.array) -> mx.array:
    """The four largest of every row, in ascending order."""
    return mx.sort(x, axis=-1)[:, -4:]


@entry("T[8,32,64]", "T[8,1,64]")
def cache_append(cache: mx.array, new: mx.array) -> mx.array:
    """A key-value cache with its last position replaced."""
    return mx.concatenate([cache[:, :-1], new], axis=1)


@entry("T[128,64]", "T[128,64]")
def interleave(x: mx.array, y: mx.array) -> mx.array:
    """Two arrays, element by element in turn."""
    return mx.stack([x, y], axis=-1).reshape(x.shape[0], -1)


@entry("T[16,64,32]")
def transpose_scale(x: mx.array) -> mx.array:
    """Two axes exchanged, and a scale."""
    return mx.swapaxes(x, -1, -2) * 0.125
