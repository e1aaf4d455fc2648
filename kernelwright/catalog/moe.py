"""Mixtures of experts: gating, dispatch and combination."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,64]")
def gate_softmax_top2(logits: mx.array) -> tuple[mx.array, mx.array]:
    """The two best experts of every token, their softmax renormalized."""
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    chosen = mx.argsort(-p, axis=-1)[:, :2]
    weights = mx.take_along_axis(p, chosen, axis=-1)
    return chosen, weights / mx.sum(weights, axis=-1, keepdims=True)


@entry("T[512,64]")
def gate_sigmoid_norm(logits: mx.array) -> mx.array:
    """Sigmoid gates, normalized by row, as DeepSeek routes."""
    scores = mx.sigmoid(logits.astype(mx.float32))
    return scores / (mx.sum(scores, axis=-1, keepdims=True) + 1e-20)


@entry("T[512,64]", "T[64]")
def gate_biased_scores(logits: mx.array, bias: mx.array) -> tuple[mx.array, mx.array]:
    """Sigmoid scores, and the same with the balancing bias."""
    scores = mx.sigmoid(logits.astype(mx.float32))
    return scores, scores + bias


@entry("T[512,4,256]", "T[512,4]")
def moe_combine(expert_outputs: mx.array, weights: mx.array) -> mx.array:
    """Weighted sum of every token's experts."""
    return mx.sum(expert_outputs * weights[..., None], axis=-2)


@entry("T[512,4,256]", "T[512,4]", "T[512,256]")
def moe_combine_residual(expert_outputs: mx.array, weights: mx.array, shared: mx.array) -> mx.array:
    """Weighted sum of every token's experts, with a shared expert."""
    return mx.sum(expert_outputs * weights[..., None], axis=-2) + shared


@entry("T[512,256]", "i32[1024]")
def moe_dispatch(x: mx.array, token_of: mx.array) -> mx.array:
    """Rows of tokens gathered in the order of their experts."""
    return x[token_of]


@entry("T[512,64]")
def load_balance(logits: mx.array) -> mx.array:
    """Mean probability of every expert."""
    return mx.mean(mx.softmax(logits, axis=-1), axis=0)
