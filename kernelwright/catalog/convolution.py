"""Small convolutions and resizing."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[2,32,32,64]", "T[64,3,3,1]")
def depthwise_conv_3x3(x: mx.array, weight: mx.array) -> mx.array:
    """A 3x3 filter for every channel."""
    return mx.conv2d(x, weight, padding=1, groups=64)


@entry("T[2,128,256]", "T[4,256]", "T[256]")
def causal_conv1d_silu(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """A causal filter of four taps for every channel, then SiLU, as state-space blocks begin."""
    length = x.shape[1]
    padded = mx.pad(x, [(0, 0), (3, 0), (0, 0)])
    y = bias
    for tap in range(4):
        y = y + padded[:, tap : tap + length] * weight[tap]
    return y * mx.sigmoid(y)


@entry("T[2,32,32,16]")
def average_pool_2x2(x: mx.array) -> mx.array:
    """Mean of every 2x2 tile."""
    batch, height, width, channels = x.shape
    return mx.mean(x.reshape(batch, height // 2, 2, width // 2, 2, channels), axis=(2, 4))


@entry("T[2,16,16,16]")
def upsample_nearest_2x(x: mx.array) -> mx.array:
    """Every pixel four times."""
    return mx.repeat(mx.repeat(x, 2, axis=1), 2, axis=2)


@entry("T[2,16,16,16]")
def upsample_bilinear_rows(x: mx.array) -> mx.array:
    """Twice the rows, linearly interpolated at edges that stay."""
    above = mx.concatenate([x[:, :1], x[:, :-1]], axis=1)
    below = mx.concatenate([x[:, 1:], x[:, -1:]], axis=1)
    rows = mx.stack([0.25 * above + 0.75 * x, 0.75 * x + 0.25 * below], axis=2)
    return rows.reshape(x.shape[0], -1, *x.shape[2:])
