"""Rotary embeddings as people write them, by angles that `mx.fast.rope` takes and by others."""

from collections.abc import Callable

import mlx.core as mx

Function = Callable[[mx.array, mx.array], mx.array]
"""Of rows, and of a number to start at."""


def rotated(x: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([-b, a], axis=-1)


def angles(x: mx.array) -> mx.array:
    frequencies = 1.0 / (10000 ** (mx.arange(0, 16, 2) / 16))
    return mx.outer(mx.arange(x.shape[-2]), frequencies)


def by_hand(x: mx.array, _: mx.array) -> mx.array:
    """Turn whole rows in float32, as models of other frameworks do, and round once."""
    wide = mx.concatenate([angles(x), angles(x)], axis=-1)
    return (x * mx.cos(wide) + rotated(x) * mx.sin(wide)).astype(x.dtype)


def in_columns(x: mx.array, _: mx.array) -> mx.array:
    """Turn neighbours, the heads behind the positions."""
    c, s = (f(angles(x.swapaxes(1, 2)))[:, None] for f in (mx.cos, mx.sin))
    a, b = x[..., ::2], x[..., 1::2]
    return mx.stack([a * c - b * s, a * s + b * c], axis=-1).flatten(-2)


def by_matrices(x: mx.array, _: mx.array) -> mx.array:
    """Multiply each pair by a matrix of its own."""
    c, s = mx.cos(angles(x)), mx.sin(angles(x))
    turns = mx.stack([mx.stack([c, -s], axis=-1), mx.stack([s, c], axis=-1)], axis=-2)
    return (turns @ x.reshape(*x.shape[:-1], -1, 2, 1)).reshape(x.shape)


def own(x: mx.array, offset: mx.array | int, *, dims: int = 16, scale: float = 1.0) -> mx.array:
    return mx.fast.rope(x, dims, traditional=False, base=1e4, scale=scale, offset=offset)


ROPES: dict[str, Function] = {
    "from an array": own,
    "from a number, half a row, scaled": lambda x, _: own(x, 7, dims=8, scale=0.5),
    "a batch each": lambda x, offset: own(x, mx.stack([offset, 2 * offset])),
    "one token": lambda x, offset: own(x[:, :, :1], offset),
    "heads last": lambda x, offset: own(x.swapaxes(1, 2), offset).swapaxes(1, 2),
    "frequencies": lambda x, offset: mx.fast.rope(
        x, 16, traditional=True, base=None, scale=1.0, offset=offset, freqs=mx.arange(1.0, 9)
    ),
    "the end of a row": lambda x, offset: own(x[..., 4:], offset, dims=12),
    "the middle of a row": lambda x, offset: own(x[..., 2:14], offset, dims=8),
    "a row's beginning": lambda x, offset: own(x[..., :8], offset, dims=8),
    "in columns": in_columns,
    "by hand": by_hand,
    "by matrices": by_matrices,
    "with a bias": lambda x, _: by_hand(x + mx.arange(16.0), _),
}


APART: dict[str, Function] = {
    "rounded once": by_hand,
    "half angles": lambda x, _: x * mx.cos(wide_half(x)) + rotated(x) * mx.sin(wide_half(x)),
    "fractions": lambda x, offset: mx.concatenate(
        [
            x[..., :8] * mx.cos(angles(x) + 0.5) - x[..., 8:] * mx.sin(angles(x) + 0.5),
            x[..., :8] * mx.sin(angles(x) + 0.5) + x[..., 8:] * mx.cos(angles(x) + 0.5),
        ],
        axis=-1,
    ),
    "scaled tables": lambda x, _: (
        x * (1.2 * mx.cos(mx.concatenate([angles(x)] * 2, -1)))
        + rotated(x) * (1.2 * mx.sin(mx.concatenate([angles(x)] * 2, -1)))
    ),
    "counted down": lambda x, _: (
        x * mx.cos(mx.concatenate([-angles(x)] * 2, -1))
        + rotated(x) * mx.sin(mx.concatenate([-angles(x)] * 2, -1))
    ),
}


def wide_half(x: mx.array) -> mx.array:
    return mx.concatenate([angles(x).astype(x.dtype)] * 2, axis=-1)
