"""Attention and its fragments."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[1,8,64,64]", "T[1,8,64,64]", "T[1,8,64,64]")
def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """Scaled dot-product attention."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125)


@entry("T[1,8,64,64]", "T[1,8,64,64]", "T[1,8,64,64]")
def attention_causal(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """Causal attention."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")


@entry("T[1,8,1,64]", "T[1,2,256,64]", "T[1,2,256,64]")
def attention_decode_gqa(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """One query against a cache, four query heads a key head."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125)


@entry("T[1,8,64,64]", "T[1,8,64,64]", "T[1,8,64,64]", "T[64,64]")
def attention_masked(q: mx.array, k: mx.array, v: mx.array, mask: mx.array) -> mx.array:
    """Attention with an additive mask."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


@entry("T[1,8,1,64]", "T[1,2,256,64]", "T[1,2,256,64]", "T[8]")
def attention_decode_sinks(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
    """One query against a cache, with a logit a head that takes weight and is thrown away."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, sinks=sinks)


@entry("T[1,8,1,64]", "T[1,2,256,64]", "T[1,2,256,64]")
def attention_decode_window(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """One query that sees the last 128 positions of a cache."""
    mask = mx.arange(k.shape[2])[None] >= k.shape[2] - 128
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


@entry("T[1,8,1,64]", "T[1,8,256,64]", "T[1,8,256,64]")
def attention_decode_soft_cap(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """One query against a cache, its scores capped at 50, as Gemma 2 has it."""
    scores = mx.tanh((q * 0.125) @ k.swapaxes(-1, -2) / 50.0) * 50.0
    return mx.softmax(scores, axis=-1, precise=True) @ v


@entry("T[1,8,1,64]", "i8[1,2,256,64]", "i8[1,2,256,64]", "T[1,2,1,64]", "T[1,2,1,64]")
def attention_decode_int8_cache(
    q: mx.array, k: mx.array, v: mx.array, k_scale: mx.array, v_scale: mx.array
) -> mx.array:
    """One query against a cache of bytes, with a scale a feature."""
    keys, values = k.astype(q.dtype) * k_scale, v.astype(q.dtype) * v_scale
    return mx.fast.scaled_dot_product_attention(q, keys, values, scale=0.125)


@entry("T[1,8,96,64]", "T[1,4,96,64]", "T[1,4,96,64]")
def attention_prefill_soft_cap(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """A prompt's queries and keys, scores capped at 50 and causal, two query heads a key head."""
    shared = q.shape[1] // k.shape[1]
    keys, values = mx.repeat(k, shared, axis=1), mx.repeat(v, shared, axis=1)
    scores = (q * q.shape[-1] ** -0.5) @ keys.swapaxes(-1, -2)
    positions = mx.arange(q.shape[2])
    seen = positions <= positions[:, None]
    scores = mx.where(seen, mx.tanh(scores / 50.0) * 50.0, -mx.inf)
    return mx.softmax(scores, axis=-1, precise=True) @ values


@entry("T[1,4,128,64]", "T[1,4,128,64]", "T[1,4,128,64]")
def attention_prefill_window(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """A prompt of which each query sees the last 32 positions."""
    positions = mx.arange(q.shape[2])
    mask = (positions <= positions[:, None]) & (positions > positions[:, None] - 32)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


@entry("T[1,8,96,64]", "T[1,2,96,64]", "T[1,2,96,64]", "T[8]")
def attention_prefill_window_sinks(
    q: mx.array, k: mx.array, v: mx.array, sinks: mx.array
) -> mx.array:
    """A prompt with a window of 24 positions and a sink a head, as gpt-oss has them."""
    positions = mx.arange(q.shape[2])
    mask = (positions <= positions[:, None]) & (positions > positions[:, None] - 24)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask, sinks=sinks)


@entry("T[1,4,96,64]", "T[1,4,96,64]", "T[1,4,96,64]")
def attention_prefill_local(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """Queries of an encoder that see what is less than 16 positions away, on both sides."""
    positions = mx.arange(q.shape[2])
    mask = mx.abs(positions[:, None] - positions) < 16
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


@entry("T[1,4,96,64]", "T[1,4,96,64]", "T[1,4,96,64]", "T[4]")
def attention_prefill_alibi(q: mx.array, k: mx.array, v: mx.array, slopes: mx.array) -> mx.array:
    """A prompt whose scores fall by a slope a head with distance, as BLOOM and MPT have it."""
    positions = mx.arange(q.shape[2])
    after = (positions - positions[:, None]).astype(q.dtype)
    scores = (q * q.shape[-1] ** -0.5) @ k.swapaxes(-1, -2)
    scores = scores + slopes[:, None, None] * after
    scores = mx.where(positions <= positions[:, None], scores, -mx.inf)
    return mx.softmax(scores, axis=-1, precise=True) @ v


@entry("T[1,2,64,256]", "T[1,1,64,256]", "T[1,1,64,256]")
def attention_prefill_wide(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    """A prompt with heads of 256 features, as Gemma has them."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.0625, mask="causal")


@entry("T[1,4,72,96]", "T[1,4,72,96]", "T[1,4,72,96]", "T[1,72,384]")
def attention_prefill_gated(q: mx.array, k: mx.array, v: mx.array, gate: mx.array) -> mx.array:
    """A prompt's heads merged under a sigmoid gate, as Qwen3-Next has it."""
    scale = q.shape[-1] ** -0.5
    attended = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")
    return attended.transpose(0, 2, 1, 3).reshape(gate.shape) * mx.sigmoid(gate)


@entry("T[8,128,128]")
def alibi_scores(scores: mx.array) -> mx.array:
    """Scores with a slope by distance and head."""
    rows = mx.arange(128)[:, None]
    columns = mx.arange(128)[None]
    slopes = mx.power(0.5, mx.arange(1, 9).astype(scores.dtype))[:, None, None]
    return scores * 0.125 - slopes * mx.abs(rows - columns).astype(scores.dtype)


@entry("T[128,16,64]", "T[128,16,64]")
def attention_output_gate(x: mx.array, gate: mx.array) -> mx.array:
    """Heads merged under a sigmoid gate."""
    return (x * mx.sigmoid(gate)).reshape(x.shape[0], -1)


@entry("T[8,1,64]", "T[8,256,64]")
def decode_scores(q: mx.array, k: mx.array) -> mx.array:
    """Scores of one query against a cache, as a row-wise product."""
    return mx.sum(q * k, axis=-1) * 0.125


@entry("T[2,8,128,64]", "T[2,8,128,64]", "T[2,8,128]", "T[2,8,128]")
def merge_partial_attention(
    a: mx.array, b: mx.array, a_logsum: mx.array, b_logsum: mx.array
) -> tuple[mx.array, mx.array]:
    """Two partial attention results merged by their log-sums."""
    total = mx.logaddexp(a_logsum, b_logsum)
    merged = a * mx.exp(a_logsum - total)[..., None] + b * mx.exp(b_logsum - total)[..., None]
    return merged, total
