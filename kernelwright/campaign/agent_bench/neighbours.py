"""Level 3: neighbours, scans, gathers, scatters, sorts and thin products."""

import mlx.core as mx

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.task import bench_task


@bench_task(Level.NEIGHBOURS, "f32[256,256]")
def heat_plane(x: mx.array) -> mx.array:
    """One step of heat on a plane with cold borders."""
    padded = mx.pad(x, [(1, 1), (1, 1)])
    across = padded[1:-1, :-2] + padded[1:-1, 2:]
    along = padded[:-2, 1:-1] + padded[2:, 1:-1]
    return x + 0.2 * (across + along - 4.0 * x)


@bench_task(Level.NEIGHBOURS, "f32[2,32,32,64]")
def depth_to_space(x: mx.array) -> mx.array:
    """Blocks of four channels become blocks of 2 x 2 pixels."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, 2, 2, channels // 4)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, 2 * height, 2 * width, channels // 4)


@bench_task(Level.NEIGHBOURS, "f32[4,256,64]", "f32[4,64]")
def causal_taps(x: mx.array, taps: mx.array) -> mx.array:
    """A causal convolution of four taps a channel."""
    padded = mx.pad(x, [(0, 0), (3, 0), (0, 0)])
    length = x.shape[1]
    return sum(
        (padded[:, k : k + length] * taps[k] for k in range(1, 4)), padded[:, :length] * taps[0]
    )


@bench_task(Level.NEIGHBOURS, "f32[256,512]")
def running_mean(x: mx.array) -> mx.array:
    """The mean of all elements up to each."""
    counts = mx.arange(1, x.shape[-1] + 1, dtype=mx.float32)
    return mx.cumsum(x, axis=-1) / counts


@bench_task(Level.NEIGHBOURS, "f32[256,256]")
def descending_share(x: mx.array) -> mx.array:
    """Rows from large to small, as shares of their sum of magnitudes."""
    ordered = -mx.sort(-x, axis=-1)
    return ordered / (mx.sum(mx.abs(x), axis=-1, keepdims=True) + 1e-6)


@bench_task(Level.NEIGHBOURS, "i32[8192]")
def byte_counts(values: mx.array) -> mx.array:
    """How often each low byte occurs."""
    return mx.zeros((256,), mx.int32).at[mx.bitwise_and(values, 255)].add(1)


@bench_task(Level.NEIGHBOURS, "f32[1000,128]", "i32[256]", "f32[256,128]")
def embed_and_scale(table: mx.array, tokens: mx.array, position: mx.array) -> mx.array:
    """Rows of a table, scaled, with positions added."""
    return table[mx.clip(tokens, 0, 999)] * 11.313708498984761 + position


@bench_task(Level.NEIGHBOURS, "f32[2,512]", "f32[512,256]", "f32[256]")
def thin_projection(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Two rows times a matrix, with a bias and a SiLU."""
    y = x @ weight + bias
    return y * mx.sigmoid(y)


@bench_task(Level.NEIGHBOURS, "f32[2,16,16,32]")
def response_norm(x: mx.array) -> mx.array:
    """Each channel over the energy of the five around it."""
    padded = mx.pad(x * x, [(0, 0), (0, 0), (0, 0), (2, 2)])
    energy = sum((padded[..., k : k + 32] for k in range(1, 5)), padded[..., :32])
    return x * mx.power(1.0 + 2e-5 * energy, -0.75)


@bench_task(Level.NEIGHBOURS, "f32[128,3]", "f32[256,3]")
def nearest_distance(points: mx.array, centres: mx.array) -> mx.array:
    """The squared distance of each point to the nearest centre."""
    apart = points[:, None, :] - centres[None, :, :]
    return mx.min(mx.sum(apart * apart, axis=-1), axis=-1)
