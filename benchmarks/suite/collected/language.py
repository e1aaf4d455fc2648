"""Functions of language models: decoding, caches, gates, embeddings, quantized weights."""

import mlx.core as mx

from benchmarks.suite.workload import Workload

DECODE = "Qwen3 8B, one token"


def embed_scale_norm(table: mx.array, ids: mx.array, weight: mx.array) -> mx.array:
    """Look tokens up, scale them, and normalise."""
    h = table[ids] * 64.0
    return mx.fast.rms_norm(h, weight, 1e-6)


def token_and_position(
    tokens: mx.array, types: mx.array, ids: mx.array, segment: mx.array, place: mx.array
) -> mx.array:
    """Sum token, segment and position embeddings, then layer norm without affine."""
    h = tokens[ids] + types[segment] + place
    mean = h.mean(axis=-1, keepdims=True)
    return (h - mean) * mx.rsqrt(h.var(axis=-1, keepdims=True) + 1e-12)


def top_p_filter(logits: mx.array, threshold: mx.array) -> mx.array:
    """Keep tokens at least as likely as a share of the likeliest (min-p), as probabilities."""
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    kept = mx.where(p >= threshold * p.max(axis=-1, keepdims=True), p, 0)
    return kept / kept.sum(axis=-1, keepdims=True)


def repetition_penalty(logits: mx.array, seen: mx.array) -> mx.array:
    """Divide or multiply the logits of tokens that were seen."""
    changed = mx.where(logits > 0, logits / 1.2, logits * 1.2)
    return mx.where(seen, changed, logits)


def verify_draft(target: mx.array, draft: mx.array) -> tuple[mx.array, mx.array]:
    """Compare the greedy tokens of two models, and count the agreeing ones of each row."""
    agree = (mx.argmax(target, axis=-1) == mx.argmax(draft, axis=-1)).astype(mx.int32)
    return agree, mx.cumprod(agree, axis=-1).sum(axis=-1)


def rope_interleaved(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotate neighbouring pairs (GPT-J)."""
    a, b = x[..., ::2], x[..., 1::2]
    return mx.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def partial_rope(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotate a quarter of each head and keep the rest (Phi)."""
    rotated, kept = x[..., :32], x[..., 32:]
    a, b = rotated[..., :16], rotated[..., 16:]
    return mx.concatenate([a * cos - b * sin, b * cos + a * sin, kept], axis=-1)


def query_key_norm(
    q: mx.array, k: mx.array, q_weight: mx.array, k_weight: mx.array
) -> tuple[mx.array, mx.array]:
    """Normalise the heads of queries and of keys."""
    return mx.fast.rms_norm(q, q_weight, 1e-6), mx.fast.rms_norm(k, k_weight, 1e-6)


def split_heads(qkv: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """Cut packed projections into heads of queries, keys and values, heads first."""
    q, k, v = mx.split(qkv, 3, axis=-1)

    def heads(t: mx.array) -> mx.array:
        b, n, d = t.shape
        return mx.contiguous(t.reshape(b, n, d // 64, 64).transpose(0, 2, 1, 3))

    return heads(q), heads(k), heads(v)


def merge_heads_gate(x: mx.array, gate: mx.array) -> mx.array:
    """Join heads and gate them (gated attention)."""
    b, h, n, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, n, h * d) * mx.sigmoid(gate)


def geglu_exact(x: mx.array) -> mx.array:
    """Gate by the exact GELU of the second half."""
    a, b = mx.split(x, 2, axis=-1)
    return a * (b * 0.5 * (1 + mx.erf(b * 0.7071067811865476)))


def router_top_experts(logits: mx.array, bias: mx.array) -> tuple[mx.array, mx.array]:
    """Pick eight of 128 experts by biased sigmoid scores and normalise their weights."""
    scores = mx.sigmoid(logits.astype(mx.float32))
    picked = mx.argpartition(-(scores + bias), kth=7, axis=-1)[..., :8]
    weights = mx.take_along_axis(scores, picked, axis=-1)
    return picked, weights / weights.sum(axis=-1, keepdims=True)


def load_balance(probabilities: mx.array, choice: mx.array) -> mx.array:
    """Tokens of each of 64 experts times their mean probability (auxiliary loss)."""
    hot = (choice[:, None] == mx.arange(64)[None]).astype(mx.float32)
    return 64 * (hot.mean(axis=0) * probabilities.mean(axis=0)).sum()


def dequantize_rows(q: mx.array, scale: mx.array) -> mx.array:
    """Turn int8 rows with a scale each into numbers."""
    return q.astype(mx.float16) * scale


def quantize_keys(k: mx.array) -> tuple[mx.array, mx.array]:
    """Quantize groups of 64 to int8 by their largest magnitude."""
    g = k.reshape(*k.shape[:-1], -1, 64)
    scale = mx.abs(g).max(axis=-1, keepdims=True) / 127 + 1e-8
    q = mx.clip(mx.round(g / scale), -127, 127).astype(mx.int8)
    return q.reshape(k.shape), scale.squeeze(-1)


def hyper_connection(streams: mx.array, mix: mx.array, y: mx.array, beta: mx.array) -> mx.array:
    """Mix four residual streams and add a branch to each."""
    mixed = (streams[:, None] * mix[None, :, :, None]).sum(axis=2)
    return mixed + beta[None, :, None] * y[:, None]


def token_shift_mix(x: mx.array, mix: mx.array) -> mx.array:
    """Blend each token with the one before it (RWKV)."""
    before = mx.concatenate([mx.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    return x + (before - x) * mix


def gated_scan(a: mx.array, b: mx.array) -> mx.array:
    """Cumulative sum of gated inputs along time."""
    return mx.cumsum(mx.sigmoid(a) * b, axis=1)


LANGUAGE = (
    Workload("embed_scale_norm", "language", embed_scale_norm,
             ("T[151936,2048]", "i32[16384]<151936", "T[2048]"), "Gemma"),
    Workload("token_and_position", "language", token_and_position,
             ("T[30522,1024]", "T[2,1024]", "i32[32,512]<30522", "i32[32,512]<2", "T[512,1024]"),
             "BERT large"),
    Workload("top_p_filter", "language", top_p_filter, ("T[256,151936]", "f32[256,1]"), "Qwen3"),
    Workload("repetition_penalty", "language", repetition_penalty,
             ("T[256,128256]", "bool[256,128256]"), "Llama 3"),
    Workload("verify_draft", "language", verify_draft,
             ("T[32,8,128256]", "T[32,8,128256]"), "speculative decoding"),
    Workload("rope_interleaved", "language", rope_interleaved,
             ("T[16,2048,16,64]", "T[2048,1,32]", "T[2048,1,32]"), "GPT-J"),
    Workload("partial_rope", "language", partial_rope,
             ("T[8,2048,32,80]", "T[2048,1,16]", "T[2048,1,16]"), "Phi-2"),
    Workload("query_key_norm", "language", query_key_norm,
             ("T[8192,32,128]", "T[8192,8,128]", "T[128]", "T[128]"), "Qwen3 8B"),
    Workload("split_heads", "language", split_heads, ("T[8,2048,2304]",), "GPT-2"),
    Workload("merge_heads_gate", "language", merge_heads_gate,
             ("T[4,16,4096,128]", "T[4,4096,2048]"), "Qwen3-Next"),
    Workload("geglu_exact", "language", geglu_exact, ("T[4096,20480]",), "Stable Diffusion XL"),
    Workload("router_top_experts", "language", router_top_experts,
             ("T[32768,128]", "f32[128]"), "GLM 4.5"),
    Workload("load_balance", "language", load_balance,
             ("f32[65536,64]", "i32[65536]<64"), "Mixtral-like"),
    Workload("dequantize_rows", "language", dequantize_rows,
             ("i8[8192,8192]", "f16[8192,1]"), "int8 weights"),
    Workload("quantize_keys", "language", quantize_keys, ("T[32,8,4096,128]",), "int8 cache"),
    Workload("hyper_connection", "language", hyper_connection,
             ("T[4096,4,2048]", "T[4,4]", "T[4096,2048]", "T[4]"), "hyper-connections"),
    Workload("token_shift_mix", "language", token_shift_mix,
             ("T[8,2048,2560]", "T[2560]"), "RWKV"),
    Workload("gated_scan", "language", gated_scan, ("T[8,2048,1024]", "T[8,2048,1024]"), "minGRU"),
)  # fmt: skip
