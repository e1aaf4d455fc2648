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


@entry("T[512,128]")
def gate_softmax_top8(logits: mx.array) -> tuple[mx.array, mx.array]:
    """The eight best of 128 experts by partition, their softmax renormalized, as Qwen routes."""
    p = mx.softmax(logits, axis=-1, precise=True)
    chosen = mx.argpartition(-p, kth=7, axis=-1)[..., :8]
    weights = mx.take_along_axis(p, chosen, axis=-1)
    return chosen, weights / mx.sum(weights, axis=-1, keepdims=True)


@entry("T[512,32]")
def gate_top4_softmax(logits: mx.array) -> tuple[mx.array, mx.array]:
    """The softmax of the four best experts' logits alone, as GPT-OSS routes."""
    chosen = mx.argpartition(logits, kth=-4, axis=-1)[..., -4:]
    return chosen, mx.softmax(mx.take_along_axis(logits, chosen, axis=-1), axis=-1, precise=True)


@entry("T[512,64]", "f32[64]")
def gate_sigmoid_top6(logits: mx.array, bias: mx.array) -> tuple[mx.array, mx.array]:
    """The six best experts by biased sigmoids, weighed without the bias, as DeepSeek routes."""
    scores = mx.sigmoid(logits.astype(mx.float32))
    chosen = mx.argpartition(-(scores + bias), kth=5, axis=-1)[..., :6]
    weights = mx.take_along_axis(scores, chosen, axis=-1)
    return chosen, weights / (mx.sum(weights, axis=-1, keepdims=True) + 1e-20) * 2.5


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


@entry(
    "T[2,1,1,512]",
    "u32[8,256,64]",
    "T[8,256,8]",
    "T[8,256,8]",
    "u32[8,256,64]",
    "T[8,256,8]",
    "T[8,256,8]",
    "u32[2,4]",
)
def experts_swiglu(
    x: mx.array,
    gate: mx.array,
    gate_scales: mx.array,
    gate_biases: mx.array,
    up: mx.array,
    up_scales: mx.array,
    up_biases: mx.array,
    chosen: mx.array,
) -> mx.array:
    """The 4-bit SwiGLU of each token's chosen experts, as a decode step runs them."""
    g = mx.gather_qmm(x, gate, gate_scales, gate_biases, rhs_indices=chosen, group_size=64, bits=4)
    u = mx.gather_qmm(x, up, up_scales, up_biases, rhs_indices=chosen, group_size=64, bits=4)
    return g * mx.sigmoid(g) * u


@entry("T[512,64]")
def load_balance(logits: mx.array) -> mx.array:
    """Mean probability of every expert."""
    return mx.mean(mx.softmax(logits, axis=-1), axis=0)
