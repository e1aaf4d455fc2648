"""Idioms as they stand in code of models that was ported from other frameworks."""

# mypy: ignore-errors
# ruff: noqa

import math

import mlx.core as mx
import mlx.nn as nn

from tests.ir.naming.spelling import spelled

X = mx.random.normal((6, 32), key=mx.random.key(0))
Y = mx.random.normal((6, 32), key=mx.random.key(1))
W = mx.random.normal((32,), key=mx.random.key(2))
B = mx.random.normal((32,), key=mx.random.key(3))
XH, YH, WH, BH = (a.astype(mx.float16) for a in (X, Y, W, B))
LABELS = mx.array([0, 3, 5, 31, 2, 9])
Q = mx.random.normal((1, 4, 5, 16), key=mx.random.key(4))
K = mx.random.normal((1, 4, 9, 16), key=mx.random.key(5))
V = mx.random.normal((1, 4, 9, 16), key=mx.random.key(6))
KG = mx.random.normal((1, 2, 9, 16), key=mx.random.key(7))
VG = mx.random.normal((1, 2, 9, 16), key=mx.random.key(8))
LENGTHS = mx.array([7])
KEEP = mx.random.bernoulli(0.7, (5, 9), key=mx.random.key(9))
ROTATED = mx.random.normal((1, 5, 4, 16), key=mx.random.key(10))
ANGLES = mx.random.normal((5, 8), key=mx.random.key(11))
GATES = mx.random.normal((6, 16), key=mx.random.key(12))
packed, scales, biases = mx.quantize(mx.random.normal((16, 128)), 64, 4)
WIDE = mx.random.normal((3, 128), key=mx.random.key(13))


@spelled("softmax", X)
def stable_from_scratch(x):
    shifted = x - mx.stop_gradient(x.max(axis=-1, keepdims=True))
    numerator = shifted.exp()
    return numerator / numerator.sum(axis=-1, keepdims=True)


@spelled("softmax", XH)
def upcast_with_temperature(x):
    logits = x.astype(mx.float32) / 0.7
    return mx.softmax(logits, axis=-1).astype(x.dtype)


@spelled("softmax", X)
def base_two(x):
    scaled = x * math.log2(math.e)
    weights = mx.power(2.0, scaled - mx.max(scaled, axis=-1, keepdims=True))
    return weights * mx.reciprocal(weights.sum(-1, keepdims=True))


@spelled("softmax", X)
def through_log_sum_exp(x):
    return mx.exp(x - mx.logsumexp(x, axis=-1, keepdims=True))


@spelled("log_softmax", X)
def log_of_softmax_parts(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - mx.log(mx.sum(mx.exp(shifted), axis=-1, keepdims=True))


@spelled("log_softmax", XH)
def log_softmax_in_float32(x):
    wide = x.astype(mx.float32)
    return (wide - mx.logsumexp(wide, axis=-1)[:, None]).astype(x.dtype)


@spelled("logsumexp", X)
def log_sum_exp_with_dims(x):
    peak = mx.max(x, axis=1)
    return peak + mx.log(mx.exp(x - mx.expand_dims(peak, 1)).sum(axis=1))


@spelled("rms_norm", XH, WH)
def llama_reference(x, weight):
    wide = x.astype(mx.float32)
    wide = wide * mx.rsqrt(wide.square().mean(-1, keepdims=True) + 1e-6)
    return weight * wide.astype(x.dtype)


@spelled("rms_norm", XH, WH)
def gemma_reference(x, weight):
    wide = x.astype(mx.float32)
    normed = wide * mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return (normed * (1.0 + weight.astype(mx.float32))).astype(x.dtype)


@spelled("rms_norm", X, W)
def through_linalg_norm(x, weight):
    length = mx.linalg.norm(x, axis=-1, keepdims=True)
    return x / (length / math.sqrt(x.shape[-1])) * weight


@spelled("rms_norm", X, W)
def t5_layer_norm(x, weight):
    variance = mx.power(x.astype(mx.float32), 2).mean(-1, keepdims=True)
    return weight * (x * mx.rsqrt(variance + 1e-6))


@spelled("rms_norm", X)
def sum_over_count(x):
    return x / mx.sqrt(mx.sum(mx.abs(x) ** 2, axis=-1, keepdims=True) / x.shape[-1] + 1e-5)


@spelled("rms_norm", X, Y, W)
def residual_first(x, residual, weight):
    hidden = x + residual
    return hidden * mx.rsqrt((hidden**2).mean(-1, keepdims=True) + 1e-5) * weight, hidden


@spelled("layer_norm", X, W, B)
def convnext_norm(x, weight, bias):
    u = x.mean(-1, keepdims=True)
    s = mx.power(x - u, 2).mean(-1, keepdims=True)
    x = (x - u) / mx.sqrt(s + 1e-6)
    return weight * x + bias


@spelled("layer_norm", XH, WH, BH)
def upcast_variance(x, weight, bias):
    wide = x.astype(mx.float32)
    normed = (wide - wide.mean(-1, keepdims=True)) * mx.rsqrt(
        mx.var(wide, axis=-1, keepdims=True) + 1e-5
    )
    return normed.astype(x.dtype) * weight + bias


@spelled("layer_norm", X, W, B)
def folded_scale_and_shift(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    scale = weight * mx.rsqrt((x * x).mean(-1, keepdims=True) - mean * mean + 1e-5)
    return x * scale + (bias - mean * scale)


@spelled("layer_norm", X, Y, W)
def modulated_without_affine(x, scale, shift):
    normed = mx.fast.layer_norm(x, None, None, 1e-6)
    return normed * (1 + scale) + shift


@spelled("rope", ROTATED, ANGLES)
def rotate_half_of_transformers(x, angles):
    emb = mx.concatenate([angles, angles], axis=-1)
    cos, sin = mx.cos(emb)[None, :, None], mx.sin(emb)[None, :, None]
    x1, x2 = mx.split(x, 2, axis=-1)
    return x * cos + mx.concatenate([-x2, x1], axis=-1) * sin


@spelled("rope", ROTATED, ANGLES)
def interleaved_of_llama(x, angles):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    real, imaginary = pairs[..., 0], pairs[..., 1]
    cos, sin = mx.cos(angles)[None, :, None], mx.sin(angles)[None, :, None]
    out = mx.stack([real * cos - imaginary * sin, real * sin + imaginary * cos], axis=-1)
    return out.reshape(x.shape)


@spelled("rope", ROTATED, ANGLES)
def every_two_of_gptj(x, angles):
    sin = mx.repeat(mx.sin(angles), 2, axis=-1)[None, :, None]
    cos = mx.repeat(mx.cos(angles), 2, axis=-1)[None, :, None]
    turned = mx.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * cos + turned * sin


@spelled("rope", ROTATED, ANGLES)
def first_part_of_neox(x, angles):
    rot, rest = x[..., :8], x[..., 8:]
    cos, sin = mx.cos(angles[:, :4])[:, None], mx.sin(angles[:, :4])[:, None]
    one, other = rot[..., :4], rot[..., 4:]
    return mx.concatenate([one * cos - other * sin, other * cos + one * sin, rest], axis=-1)


@spelled("attention", Q, K, V)
def causal_of_nanogpt(q, k, v):
    scores = (q @ k.transpose(0, 1, 3, 2)) * (1.0 / math.sqrt(k.shape[-1]))
    rows, columns = scores.shape[-2:]
    keep = mx.tril(mx.ones((rows, columns)), k=columns - rows)
    scores = mx.where(keep == 0, float("-inf"), scores)
    return mx.softmax(scores, axis=-1) @ v


@spelled("attention", Q, KG, VG)
def repeated_heads_of_llama(q, k, v):
    repeats = q.shape[1] // k.shape[1]
    k, v = mx.repeat(k, repeats, axis=1), mx.repeat(v, repeats, axis=1)
    scores = mx.matmul(q, mx.swapaxes(k, 2, 3)) / math.sqrt(16)
    return mx.matmul(mx.softmax(scores.astype(mx.float32), axis=-1).astype(q.dtype), v)


@spelled("attention", Q, K, V, LENGTHS)
def lengths_as_bias(q, k, v, lengths):
    outside = mx.arange(k.shape[2])[None] >= lengths[:, None]
    bias = outside[:, None, None, :].astype(q.dtype) * -1e9
    scores = mx.einsum("bhqd,bhkd->bhqk", q * 16**-0.5, k) + bias
    return mx.einsum("bhqk,bhkd->bhqd", mx.softmax(scores, -1), v)


@spelled("attention", Q, K, V, KEEP)
def boolean_mask_of_jax(q, k, v, keep):
    scores = mx.einsum("...qd,...kd->...qk", q, k) / 4.0
    scores = mx.where(keep[None, None], scores, mx.finfo(scores.dtype).min)
    weights = mx.softmax(scores - scores.max(-1, keepdims=True), axis=-1)
    return mx.einsum("...qk,...kd->...qd", weights, v)


@spelled("attention", Q, K, V)
def soft_capped_of_gemma(q, k, v):
    scores = (q * 0.25) @ k.swapaxes(-1, -2)
    return mx.softmax(scores, axis=-1, precise=True) @ v


@spelled("swiglu", X, Y)
def fused_gate_up(gate, up):
    return gate * mx.sigmoid(gate) * up


@spelled("swiglu", mx.concatenate([X, Y], axis=-1))
def chunked_gate_up(x):
    gate, up = mx.split(x, 2, axis=-1)
    return up * nn.silu(gate)


@spelled("swiglu", mx.stack([X, Y], axis=1))
def stacked_gate_up(x):
    return x[:, 0] / (1 + mx.exp(-x[:, 0])) * x[:, 1]


@spelled("geglu_tanh", X, Y)
def new_gelu_gate(gate, up):
    inner = math.sqrt(2.0 / math.pi) * (gate + 0.044715 * mx.power(gate, 3.0))
    return 0.5 * gate * (1.0 + mx.tanh(inner)) * up


@spelled("geglu", mx.concatenate([X, Y], axis=-1))
def diffusers_geglu(x):
    hidden, gate = mx.split(x, 2, axis=-1)
    return hidden * (gate * 0.5 * (1.0 + mx.erf(gate / math.sqrt(2.0))))


@spelled("quantized_matmul", WIDE, packed, scales, biases)
def folded_zero_points(x, w, s, b):
    shifts = mx.arange(8, dtype=mx.uint32) * 4
    digits = mx.bitwise_and(mx.right_shift(w[:, :, None], shifts), 15).reshape(16, 2, 64)
    weight = (digits.astype(s.dtype) * s[:, :, None] + b[:, :, None]).reshape(16, 128)
    return mx.matmul(x, mx.transpose(weight))


@spelled("quantized_matmul", WIDE, packed, scales, biases)
def constant_shifts(x, w, s, b):
    shifts = mx.array([0, 4, 8, 12, 16, 20, 24, 28], dtype=mx.uint32)
    digits = ((w[..., None] >> shifts) & 0xF).reshape(16, 2, 64).astype(mx.float32)
    return x @ (digits * s[..., None] + b[..., None]).reshape(16, 128).T


@spelled(("quantized_matmul",), WIDE, packed, scales, biases)
def digits_in_reverse(x, w, s, b):
    shifts = 28 - mx.arange(8, dtype=mx.uint32) * 4
    digits = ((w[..., None] >> shifts) & 0xF).reshape(16, 2, 64).astype(mx.float32)
    return x @ (digits * s[..., None] + b[..., None]).reshape(16, 128).T


@spelled("moe_gate", GATES)
def mixtral_reference(logits):
    probabilities = mx.softmax(logits.astype(mx.float32), axis=1)
    chosen = mx.argsort(-probabilities, axis=-1)[:, :2]
    weights = mx.take_along_axis(probabilities, chosen, axis=-1)
    return chosen, weights / mx.sum(weights, axis=-1, keepdims=True)


@spelled("moe_gate", GATES, mx.zeros((16,)))
def deepseek_reference(logits, correction):
    scores = mx.sigmoid(logits)
    chosen = mx.argpartition(-(scores + correction), kth=3, axis=-1)[..., :4]
    weights = mx.take_along_axis(scores, chosen, axis=-1)
    weights = weights / (weights.sum(axis=-1, keepdims=True) + 1e-20) * 2.5
    return chosen, weights


@spelled("cross_entropy", X, LABELS)
def nll_of_log_softmax(logits, labels):
    logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return (-mx.take_along_axis(logs, labels[:, None], axis=-1).squeeze(-1)).mean()


@spelled("cross_entropy", X, LABELS)
def shifted_labels(logits, labels):
    one_hot = (mx.arange(32)[None] == labels[1:, None]).astype(logits.dtype)
    logs = mx.log(mx.softmax(logits[:-1], axis=-1))
    return -(one_hot * logs).sum(-1)


@spelled("cross_entropy", X, LABELS)
def masked_loss(logits, labels):
    picked = logits[mx.arange(6), labels]
    losses = mx.logsumexp(logits, axis=-1) - picked
    keep = labels != 0
    return mx.where(keep, losses, 0.0).sum() / keep.sum()


@spelled(("softmax",), X)
def normalised_by_the_largest(x):
    weights = mx.exp(x - x.max(-1, keepdims=True))
    return weights / weights.max(-1, keepdims=True)


@spelled(("softmax",), X)
def shares_of_shifted_by_another(x):
    return mx.exp(x - x.max(-1, keepdims=True)) / mx.exp(x - x.min(-1, keepdims=True)).sum(
        -1, keepdims=True
    )


@spelled(("rms_norm", "layer_norm"), X, W)
def mean_of_absolutes(x, weight):
    return x * mx.rsqrt(mx.abs(x).mean(-1, keepdims=True) + 1e-5) * weight


@spelled(("layer_norm",), X)
def centred_by_the_median_row(x):
    return (x - x[:, :1]) * mx.rsqrt(mx.var(x, axis=-1, keepdims=True) + 1e-5)


@spelled(("rope",), ROTATED, ANGLES)
def reflected(x, angles):
    cos, sin = mx.cos(angles)[None, :, None], mx.sin(angles)[None, :, None]
    one, other = x[..., :8], x[..., 8:]
    return mx.concatenate([one * cos + other * sin, one * sin + other * cos], axis=-1)


@spelled(("attention",), Q, K, V)
def weights_of_queries(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.25, axis=-2) @ v


@spelled(("swiglu",), X, Y)
def gated_by_the_other(gate, up):
    return gate * mx.sigmoid(up)


@spelled(("cross_entropy",), X, LABELS)
def entropy_without_labels(logits, labels):
    logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return -(mx.exp(logs) * logs).sum(-1) + labels
