"""Level 4: several phases that need each other's whole results."""

import mlx.core as mx

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.task import bench_task


@bench_task(Level.PHASES, "f32[128,64]", "f32[128,64]")
def contrastive_loss(images: mx.array, texts: mx.array) -> mx.array:
    """The symmetric contrastive loss of paired embeddings."""
    images = images * mx.rsqrt(mx.sum(images * images, axis=-1, keepdims=True) + 1e-6)
    texts = texts * mx.rsqrt(mx.sum(texts * texts, axis=-1, keepdims=True) + 1e-6)
    scores = 14.0 * (images @ texts.T)
    pairs = mx.sum(14.0 * images * texts, axis=-1)
    losses = mx.logsumexp(scores, axis=1) + mx.logsumexp(scores, axis=0) - 2.0 * pairs
    return 0.5 * mx.mean(losses)


@bench_task(Level.PHASES, "f32[256,256]", "f32[256,256]", "f32[256]", "f32[256]")
def factored_step(
    weight: mx.array, grad: mx.array, rows: mx.array, columns: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """An optimizer's step with factored second moments."""
    square = grad * grad + 1e-30
    rows = 0.99 * rows + 0.01 * mx.mean(square, axis=-1)
    columns = 0.99 * columns + 0.01 * mx.mean(square, axis=-2)
    scale = mx.rsqrt(rows / mx.mean(rows))[:, None] * mx.rsqrt(columns)[None, :]
    return weight - 0.01 * grad * scale, rows, columns


@bench_task(Level.PHASES, "f32[512,8]", "f32[16,8]")
def cluster_step(points: mx.array, centres: mx.array) -> mx.array:
    """One step of k-means: assign, then average."""
    apart = points[:, None, :] - centres[None, :, :]
    nearest = mx.argmin(mx.sum(apart * apart, axis=-1), axis=-1)
    chosen = (nearest[:, None] == mx.arange(16)[None, :]).astype(mx.float32)
    counts = mx.sum(chosen, axis=0)[:, None]
    return mx.where(counts > 0, (chosen.T @ points) / mx.maximum(counts, 1.0), centres)


@bench_task(Level.PHASES, "f32[64,1024]")
def min_p_filter(scores: mx.array) -> mx.array:
    """A softmax over what has at least a twentieth of the best chance."""
    chances = mx.softmax(scores, axis=-1)
    kept = mx.where(chances >= 0.05 * mx.max(chances, axis=-1, keepdims=True), chances, 0.0)
    return kept / mx.sum(kept, axis=-1, keepdims=True)


@bench_task(Level.PHASES, "f32[256,3]", "f32[256]")
def gravity(position: mx.array, mass: mx.array) -> mx.array:
    """The acceleration of bodies that attract each other."""
    apart = position[None, :, :] - position[:, None, :]
    inverse = mx.rsqrt(mx.sum(apart * apart, axis=-1) + 0.01)
    return mx.sum(apart * (mass[None, :] * inverse * inverse * inverse)[:, :, None], axis=1)


@bench_task(Level.PHASES, "f32[64,129]", "f32[64,129]", "f32[129,40]")
def log_mel(real: mx.array, imaginary: mx.array, filters: mx.array) -> mx.array:
    """Mel bands of a spectrum, in logarithms above a floor."""
    bands = (real * real + imaginary * imaginary) @ filters
    loud = mx.log10(mx.maximum(bands, 1e-10))
    return (mx.maximum(loud, mx.max(loud) - 8.0) + 4.0) / 4.0


@bench_task(Level.PHASES, "f32[8,64,64]")
def sinkhorn(scores: mx.array) -> mx.array:
    """Three rounds that make rows and columns sum to one."""
    plan = mx.exp(scores - mx.max(scores, axis=(1, 2), keepdims=True))
    for _ in range(3):
        plan = plan / (mx.sum(plan, axis=-1, keepdims=True) + 1e-9)
        plan = plan / (mx.sum(plan, axis=-2, keepdims=True) + 1e-9)
    return plan


@bench_task(Level.PHASES, "f32[4,64,32]", "f32[4,64,32]", "f32[4,64,32]", "f32[64,64]")
def biased_attention(q: mx.array, k: mx.array, v: mx.array, bias: mx.array) -> mx.array:
    """Attention with an added bias for each pair of places."""
    scores = 0.17677669529663687 * (q @ k.transpose(0, 2, 1)) + bias
    return mx.softmax(scores, axis=-1) @ v


@bench_task(Level.PHASES, "f32[8,16,16,32]", "f32[32]", "f32[32]")
def batch_norm_pool(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Batch norm, ReLU, and the mean of blocks of 2 x 2."""
    mean = mx.mean(x, axis=(0, 1, 2))
    variance = mx.mean((x - mean) * (x - mean), axis=(0, 1, 2))
    y = mx.maximum((x - mean) * mx.rsqrt(variance + 1e-5) * weight + bias, 0.0)
    return mx.mean(y.reshape(8, 8, 2, 8, 2, 32), axis=(2, 4))


@bench_task(Level.PHASES, "f32[64,128]", "f32[128,256]", "f32[256,128]", "f32[128]")
def normed_feed_forward(x: mx.array, up: mx.array, down: mx.array, weight: mx.array) -> mx.array:
    """A norm, a feed-forward layer of two products, and the residual."""
    h = x * mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight
    h = h @ up
    return x + (h * mx.sigmoid(h)) @ down
