"""Gates, attention, packed weights and rope in further spellings, and near misses."""

# mypy: ignore-errors
# ruff: noqa

import math
import mlx.core as mx
import mlx.nn as nn
from tests.ir.naming.spelling import spelled

B, HH, L, D = (1, 2, 6, 8)
Q, K, V = (mx.random.normal((B, HH, L, D), key=mx.random.key(i)) for i in range(3))
G = mx.random.normal((6, 16), key=mx.random.key(0))
R = mx.random.normal((2, 3, 5, 8), key=mx.random.key(5))
TT = mx.random.normal((5, 4), key=mx.random.key(6))
C, S = (mx.cos(TT), mx.sin(TT))
M = mx.tril(mx.ones((L, L))) > 0
PW, PS, PB = mx.quantize(mx.random.normal((16, 128), key=mx.random.key(1)), 64, 4)
PX = mx.random.normal((3, 128), key=mx.random.key(0))


def take(a, i):
    return mx.take_along_axis(a, i, axis=-1)


@spelled("moe_gate", G)
def gate_neg_sort(g):
    i = mx.argsort(mx.negative(g), axis=1)[:, :2]
    return (i, mx.softmax(mx.take_along_axis(g, i, 1), axis=1))


@spelled("moe_gate", G)
def gate_norm_scale(g):
    s = mx.sigmoid(g)
    i = mx.argpartition(-s, kth=3, axis=-1)[..., :4]
    w = take(s, i)
    return (i, w / (mx.sum(w, -1, keepdims=True) + 1e-09) * 2.0)


@spelled("moe_gate", G)
def gate_f32(g):
    p = mx.softmax(g.astype(mx.float32), -1)
    i = mx.stop_gradient(mx.argpartition(p, kth=-2, axis=-1)[:, -2:])
    w = take(p, i)
    return (w / w.sum(-1, keepdims=True)).astype(g.dtype)


@spelled("moe_gate", G)
def gate_logsumexp(g):
    i = mx.argpartition(-g, kth=1, axis=-1)[:, :2]
    w = take(g, i)
    return mx.exp(w - mx.logsumexp(w, -1, keepdims=True))


@spelled("attention", Q, K, V, M)
def att_masked_fill(q, k, v, m):
    s = q * D ** (-0.5) @ k.transpose(0, 1, 3, 2)
    s = mx.where(~m, -mx.inf, s)
    return mx.softmax(s.astype(mx.float32), -1).astype(v.dtype) @ v


@spelled("attention", Q, K, V)
def att_einsum_full(q, k, v):
    s = mx.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(D)
    return mx.einsum("bhqk,bhkd->bhqd", mx.softmax(s, axis=-1), v)


@spelled("attention", Q, K, V)
def att_tri_add(q, k, v):
    m = (1 - mx.tril(mx.ones((L, L)))) * -1000000000.0
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.35 + m, -1) @ v


@spelled("attention", Q, K, V)
def att_scale_both(q, k, v):
    s = D ** (-0.25)
    return mx.softmax(q * s @ (k * s).swapaxes(-1, -2), -1) @ v


@spelled("attention", Q, K, V)
def att_flat_heads(q, k, v):
    f = lambda t: t.reshape(B * HH, L, D)
    return (mx.softmax(f(q) @ f(k).swapaxes(1, 2) * 0.35, -1) @ f(v)).reshape(B, HH, L, D)


@spelled("attention", Q, K, V)
def att_value_scaled(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.35, -1) @ (v * 1.0)


@spelled("attention", Q, K, V, M)
def att_and_mask(q, k, v, m):
    i = mx.arange(L)
    both = mx.logical_and(m, i[:, None] >= i[None])
    return mx.softmax(mx.where(both, q @ k.swapaxes(-1, -2) * 0.35, -1000000000.0), -1) @ v


@spelled("attention", Q, K, V)
def att_written_all(q, k, v):
    s = mx.matmul(q, mx.transpose(k, [0, 1, 3, 2])) * 0.35
    e = mx.exp(s - mx.max(s, axis=-1, keepdims=True))
    return mx.matmul(e / mx.sum(e, axis=-1, keepdims=True), v)


@spelled("attention", Q, K, V)
def att_late_recip(q, k, v):
    s = q @ k.swapaxes(-1, -2) * 0.35
    e = mx.exp(s - s.max(-1, keepdims=True))
    return e @ v * mx.reciprocal(e.sum(-1, keepdims=True))


@spelled("quantized_matmul", PX, PW, PS, PB)
def pk_tensordot(x, w, s, b):
    return mx.tensordot(x, mx.dequantize(w, s, b, 64, 4), axes=[[1], [1]])


@spelled("quantized_matmul", PX, PW, PS, PB)
def pk_cast(x, w, s, b):
    return x @ mx.dequantize(w, s, b, 64, 4).astype(x.dtype).swapaxes(-1, -2)


def rh(x):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([-b, a], -1)


@spelled("rope", R, C, S)
def rope_stack_reshape(x, c, s):
    a, b = (x[..., :4], x[..., 4:])
    y = mx.stack([a * c - b * s, b * c + a * s], axis=-2)
    return y.reshape(*x.shape)


@spelled("rope", R, C, S)
def rope_neg_sin(x, c, s):
    a, b = mx.split(x, 2, -1)
    n = -s
    return mx.concatenate([a * c + b * n, b * c - a * n], -1)


@spelled("rope", R, mx.stack([C, S]))
def rope_cs_stacked(x, cs):
    c, s = (cs[0], cs[1])
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * s, a * s + b * c], -1)


@spelled("rope", mx.concatenate([R, R, R], -1), C, S)
def rope_of_slice(x, c, s):
    k = x[..., 8:16]
    a, b = mx.split(k, 2, -1)
    return mx.concatenate([a * c - b * s, a * s + b * c], -1)


@spelled("rope", R, C, S)
def rope_addcmul(x, c, s):
    out = x * mx.repeat(c, 2, -1)
    y = mx.stack([-x[..., 1::2], x[..., 0::2]], axis=-1)
    return out + mx.flatten(y, -2, -1) * mx.repeat(s, 2, -1)


@spelled("rope", R, C, S)
def rope_vmap(x, c, s):

    def one(r, c, s):
        return mx.concatenate([r[:4] * c - r[4:] * s, r[:4] * s + r[4:] * c])

    f = mx.vmap(mx.vmap(mx.vmap(one), in_axes=(0, None, None)), in_axes=(0, None, None))
    return f(x, c, s)


@spelled(("moe_gate",), G)
def n_gate_low(g):
    p = mx.softmax(g, -1)
    i = mx.argsort(p, axis=-1)[:, :4]
    return take(p, i)


@spelled(("moe_gate",), G)
def n_gate_mid(g):
    p = mx.softmax(g, -1)
    i = mx.argsort(-p, axis=-1)[:, 1:5]
    return take(p, i)


@spelled(("attention",), Q, K, V)
def n_att_relu(q, k, v):
    return mx.softmax(nn.relu(q @ k.swapaxes(-1, -2)), -1) @ v


@spelled(("attention",), Q, K, V)
def n_att_scaled_after_mask(q, k, v):
    return mx.softmax(mx.where(M, q @ k.swapaxes(-1, -2), -1.0), -1) @ v


@spelled(("attention",), Q, K, V)
def n_att_qv(q, k, v):
    w = mx.softmax(q @ k.swapaxes(-1, -2), -1)
    return w / w.max(-1, keepdims=True) @ v


@spelled(("rope",), R, C, S)
def n_rope_both_minus(x, c, s):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * s, b * c - a * s], -1)


@spelled(("rope",), R, C, S)
def n_rope_swapped_out(x, c, s):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * s + b * c, a * c - b * s], -1)


@spelled(("rope",), R, C, S)
def n_rope_overlap(x, c, s):
    a, b = (x[..., :4], x[..., 2:6])
    return mx.concatenate([a * c - b * s, a * s + b * c], -1)


@spelled(("rope",), R, C, S)
def n_rope_reversed_table(x, c, s):
    a, b = mx.split(x, 2, -1)
    return mx.concatenate([a * c - b * s, a * s[:, ::-1] + b * c], -1)


@spelled(("rope",), mx.concatenate([R, R], -1), C, S)
def n_rope_two_offsets(x, c, s):
    a, b = (x[..., :4], x[..., 8:12])
    return mx.concatenate([a * c - b * s, a * s + b * c], -1)


@spelled(("quantized_matmul",), PX[:, :16], PW, PS, PB)
def n_pk_noT(x, w, s, b):
    return x @ mx.dequantize(w, s, b, 64, 4) ** 2
