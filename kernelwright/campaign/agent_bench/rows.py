"""Level 2: reductions along rows or columns, with elementwise work around them."""

import mlx.core as mx

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.task import bench_task


@bench_task(Level.ROWS, "f32[256,1024]", "f32[1024]", "f32[256,1024]")
def norm_then_gate(x: mx.array, weight: mx.array, gate: mx.array) -> mx.array:
    """RMS norm, then a SiLU gate."""
    scale = mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x * scale * weight * (gate * mx.sigmoid(gate))


@bench_task(Level.ROWS, "f32[256,1024]")
def min_max_scale(x: mx.array) -> mx.array:
    """Each row scaled to lie between 0 and 1."""
    low = mx.min(x, axis=-1, keepdims=True)
    high = mx.max(x, axis=-1, keepdims=True)
    return (x - low) / (high - low + 1e-6)


@bench_task(Level.ROWS, "f32[512,256]")
def standardize_columns(x: mx.array) -> mx.array:
    """Each column with mean 0 and variance 1."""
    centred = x - mx.mean(x, axis=0, keepdims=True)
    return centred * mx.rsqrt(mx.mean(centred * centred, axis=0, keepdims=True) + 1e-5)


@bench_task(Level.ROWS, "f16[128,2048]", "f16[2048]")
def softmax_with_bias(x: mx.array, bias: mx.array) -> mx.array:
    """A softmax of biased scores."""
    return mx.softmax(x + bias, axis=-1, precise=True)


@bench_task(Level.ROWS, "f32[256,512]", "f32[256,512]")
def jensen_shannon(p: mx.array, q: mx.array) -> mx.array:
    """The Jensen-Shannon divergence of the softmaxes of two rows."""
    a, b = mx.softmax(p, axis=-1), mx.softmax(q, axis=-1)
    middle = mx.log(0.5 * (a + b) + 1e-9)
    left = mx.sum(a * (mx.log(a + 1e-9) - middle), axis=-1)
    return 0.5 * (left + mx.sum(b * (mx.log(b + 1e-9) - middle), axis=-1))


@bench_task(Level.ROWS, "f32[256,1024]", "f32[256,1024]")
def cosine_distance(x: mx.array, y: mx.array) -> mx.array:
    """One minus the cosine of two rows."""
    product = mx.sum(x * y, axis=-1)
    norms = mx.sum(x * x, axis=-1) * mx.sum(y * y, axis=-1)
    return 1.0 - product * mx.rsqrt(norms + 1e-12)


@bench_task(Level.ROWS, "f32[64,4096]")
def log_mean_exp(x: mx.array) -> mx.array:
    """The logarithm of the mean of exponentials."""
    return mx.logsumexp(x, axis=-1) - 8.317766166719343


@bench_task(Level.ROWS, "f32[128,1024]")
def quantize_rows(x: mx.array) -> tuple[mx.array, mx.array]:
    """Rows as bytes with a scale each."""
    scale = mx.max(mx.abs(x), axis=-1, keepdims=True) / 127.0 + 1e-8
    return mx.round(x / scale).astype(mx.int8), scale


@bench_task(Level.ROWS, "f32[16,64,64]", "f32[16,64,64]")
def instance_norm_add(x: mx.array, y: mx.array) -> mx.array:
    """Each plane normalised, then added to another."""
    mean = mx.mean(x, axis=(1, 2), keepdims=True)
    centred = x - mean
    variance = mx.mean(centred * centred, axis=(1, 2), keepdims=True)
    return y + centred * mx.rsqrt(variance + 1e-5)


@bench_task(Level.ROWS, "f32[512,256]", "f32[512,256]")
def margin_ranking(score: mx.array, target: mx.array) -> mx.array:
    """The mean hinge of each row against its best target."""
    best = mx.max(target, axis=-1, keepdims=True)
    return mx.mean(mx.maximum(0.0, 1.0 - (best - score)), axis=-1)
