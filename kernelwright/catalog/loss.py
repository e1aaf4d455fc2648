"""Losses, by row."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,1024]", "i32[512]")
def cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    """Softmax cross-entropy against class indices."""
    score = mx.take_along_axis(logits, targets[:, None], axis=-1).squeeze(-1)
    return mx.logsumexp(logits, axis=-1) - score


@entry("T[512,1024]", "T[512,1024]")
def cross_entropy_soft(logits: mx.array, probabilities: mx.array) -> mx.array:
    """Softmax cross-entropy against a distribution."""
    return mx.logsumexp(logits, axis=-1) - mx.sum(logits * probabilities, axis=-1)


@entry("T[512,1024]", "i32[512]")
def cross_entropy_smoothed(logits: mx.array, targets: mx.array) -> mx.array:
    """Cross-entropy with label smoothing of 0.1."""
    score = mx.take_along_axis(logits, targets[:, None], axis=-1).squeeze(-1)
    return mx.logsumexp(logits, axis=-1) - 0.9 * score - 0.1 * mx.mean(logits, axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def kl_divergence(log_p: mx.array, log_q: mx.array) -> mx.array:
    """Kullback-Leibler divergence of log-probabilities."""
    return mx.sum(mx.exp(log_p) * (log_p - log_q), axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def mean_squared_error(x: mx.array, y: mx.array) -> mx.array:
    """Mean squared error of every row."""
    return mx.mean(mx.square(x - y), axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def smooth_l1(x: mx.array, y: mx.array) -> mx.array:
    """Huber-like loss of every row."""
    d = mx.abs(x - y)
    return mx.mean(mx.where(d < 1, 0.5 * d * d, d - 0.5), axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def binary_cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    """Binary cross-entropy from logits."""
    return mx.mean(mx.logaddexp(0, logits) - targets * logits, axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def cosine_similarity(x: mx.array, y: mx.array) -> mx.array:
    """Cosine of the angle between rows."""
    lengths = mx.sqrt(mx.sum(x * x, axis=-1) * mx.sum(y * y, axis=-1))
    return mx.sum(x * y, axis=-1) / mx.maximum(lengths, 1e-6)


@entry("T[512,1024]", "T[512,1]")
def advantage_norm(rewards: mx.array, mask: mx.array) -> mx.array:
    """Group-relative advantage: rewards centred and scaled by row."""
    centred = rewards - mx.mean(rewards, axis=-1, keepdims=True)
    deviation = mx.sqrt(mx.mean(mx.square(centred), axis=-1, keepdims=True))
    return centred / (deviation + 1e-4) * mask
