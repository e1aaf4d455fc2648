"""Softmax and its relatives."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,1024]")
def softmax(x: mx.array) -> mx.array:
    """Softmax of every row."""
    return mx.softmax(x, axis=-1)


@entry("T[512,1024]")
def softmax_precise(x: mx.array) -> mx.array:
    """Softmax of every row, accumulated in float32."""
    return mx.softmax(x, axis=-1, precise=True)


@entry("T[512,1024]")
def softmax_by_hand(x: mx.array) -> mx.array:
    """Softmax as people write it out."""
    e = mx.exp(x - mx.max(x, axis=-1, keepdims=True))
    return e / mx.sum(e, axis=-1, keepdims=True)


@entry("T[512,1024]")
def log_softmax(x: mx.array) -> mx.array:
    """Logarithm of the softmax of every row."""
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


@entry("T[512,1024]")
def logsumexp(x: mx.array) -> mx.array:
    """Logarithm of the sum of exponentials of every row."""
    return mx.logsumexp(x, axis=-1)


@entry("T[8,64,256]", "bool[64,256]")
def masked_softmax(scores: mx.array, mask: mx.array) -> mx.array:
    """Softmax of scaled scores under a boolean mask."""
    return mx.softmax(mx.where(mask, scores * 0.125, -mx.inf), axis=-1)


@entry("T[8,64,256]", "T[64,256]")
def biased_softmax(scores: mx.array, bias: mx.array) -> mx.array:
    """Softmax of scaled scores with an additive mask."""
    return mx.softmax(scores * 0.125 + bias, axis=-1)


@entry("T[8,128,128]")
def causal_softmax(scores: mx.array) -> mx.array:
    """Softmax of scores under a causal mask made on the fly."""
    rows = mx.arange(scores.shape[-2])[:, None]
    columns = mx.arange(scores.shape[-1])[None]
    return mx.softmax(mx.where(columns <= rows, scores, -mx.inf), axis=-1)


@entry("T[512,1024]")
def softmax_temperature(logits: mx.array) -> mx.array:
    """Softmax at temperature 0.7, accumulated in float32."""
    return mx.softmax(logits.astype(mx.float32) / 0.7, axis=-1).astype(logits.dtype)


@entry("T[512,1024]")
def softmax_soft_cap(logits: mx.array) -> mx.array:
    """Softmax of capped logits."""
    return mx.softmax(30 * mx.tanh(logits / 30), axis=-1)


@entry("T[1024,512]")
def softmax_columns(x: mx.array) -> mx.array:
    """Softmax of every column."""
    return mx.softmax(x, axis=0)


@entry("T[512,1024]")
def entropy(logits: mx.array) -> mx.array:
    """Entropy of every row's softmax."""
    log_p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return -mx.sum(mx.exp(log_p) * log_p, axis=-1)


@entry("T[8,64,256]", "T[8,1,1]")
def softmax_with_sink(scores: mx.array, sink: mx.array) -> mx.array:
    """Softmax with one more logit a head that takes weight and is thrown away."""
    highest = mx.maximum(mx.max(scores, axis=-1, keepdims=True), sink)
    e = mx.exp(scores - highest)
    return e / (mx.sum(e, axis=-1, keepdims=True) + mx.exp(sink - highest))
