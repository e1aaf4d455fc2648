"""Attention as people write it, and what only looks like it."""

# mypy: ignore-errors
# ruff: noqa

import math

import mlx.core as mx

from tests.ir.naming.spelling import spelled

B, H, L, D = 1, 2, 6, 4
Q, K, V = (mx.random.normal((B, H, L, D), key=mx.random.key(i)) for i in range(3))
QT, KT, VT = (mx.random.normal((B, L, H, D), key=mx.random.key(i)) for i in range(3))
KG, VG = (mx.random.normal((B, 1, L, D), key=mx.random.key(i)) for i in range(3, 5))
M = mx.tril(mx.ones((L, L))) > 0
MF = mx.where(M, 0.0, -1e9)
PAD = mx.ones((B, L), mx.bool_)
QH, KH, VH = (a.astype(mx.float16) for a in (Q, K, V))
FL = mx.random.normal((B, L, 3 * H * D), key=mx.random.key(9))
A = "attention"


def sm(z):
    e = mx.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


N = ("attention",)


@spelled(A, Q, K, V)
def way_1(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(D), -1) @ v


@spelled(A, Q, K, V)
def way_2(q, k, v):
    return mx.matmul(mx.softmax(mx.matmul(q, k.transpose(0, 1, 3, 2)) * D**-0.5, axis=-1), v)


@spelled(A, QT, KT, VT)
def way_3(q, k, v):
    w = mx.softmax(mx.einsum("blhd,bmhd->bhlm", q, k) / 2, -1)
    return mx.einsum("bhlm,bmhd->blhd", w, v)


@spelled(A, Q, K, V, M)
def way_4(q, k, v, m):
    z = mx.where(m, q @ mx.swapaxes(k, 2, 3) * 0.5, float("-inf"))
    return mx.softmax(z, -1) @ v


@spelled(A, Q, K, V, M)
def way_5(q, k, v, m):
    z = (q @ k.swapaxes(-1, -2)) * 0.5
    z = mx.where(m[None, None], z, mx.finfo(z.dtype).min)
    return sm(z) @ v


@spelled(A, Q, K, V, MF)
def way_6(q, k, v, m):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5 + m, -1) @ v


@spelled(A, Q, K, V)
def way_7(q, k, v):
    n = q.shape[2]
    i = mx.arange(n)
    m = i[:, None] >= i[None]
    return mx.softmax(mx.where(m, q @ k.swapaxes(-1, -2) * 0.5, -1e9), -1) @ v


@spelled(A, Q, K, V)
def way_8(q, k, v):
    n = q.shape[2]
    m = mx.triu(mx.full((n, n), -mx.inf), k=1)
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5 + m, -1) @ v


@spelled(A, QT, KT, VT)
def way_9(q, k, v):
    q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
    o = mx.softmax((q * 0.5) @ k.transpose(0, 1, 3, 2), axis=-1) @ v
    return o.transpose(0, 2, 1, 3).reshape(B, L, -1)


@spelled(A, FL)
def way_10(x):
    q, k, v = mx.split(x, 3, -1)
    f = lambda t: t.reshape(B, L, H, D).transpose(0, 2, 1, 3)
    q, k, v = f(q), f(k), f(v)
    return (
        (mx.softmax(q @ k.swapaxes(-1, -2) * D**-0.5, -1) @ v).swapaxes(1, 2).reshape(B, L, H * D)
    )


@spelled(A, FL)
def way_11(x):
    y = x.reshape(B, L, 3, H, D).transpose(2, 0, 3, 1, 4)
    q, k, v = y[0], y[1], y[2]
    return mx.softmax(q @ k.swapaxes(-1, -2) / D**0.5, -1) @ v


@spelled(A, Q, KG, VG)
def way_12(q, k, v):
    k = mx.repeat(k, 2, axis=1)
    v = mx.repeat(v, 2, axis=1)
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5, -1) @ v


@spelled(A, Q, KG, VG)
def way_13(q, k, v):
    g = q.reshape(B, 1, 2, L, D)
    w = mx.softmax(g @ k[:, :, None].swapaxes(-1, -2) * 0.5, -1)
    return (w @ v[:, :, None]).reshape(B, H, L, D)


@spelled(A, Q, KG, VG)
def way_14(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5, -1) @ v


@spelled(A, QH, KH, VH)
def way_15(q, k, v):
    return mx.softmax((q @ k.swapaxes(-1, -2) * 0.5).astype(mx.float32), -1).astype(q.dtype) @ v


@spelled(A, QH, KH, VH)
def way_16(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5, -1, precise=True) @ v


@spelled(A, Q, K, V, PAD)
def way_17(q, k, v, p):
    m = (1.0 - p.astype(mx.float32))[:, None, None] * -1e9
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5 + m, -1) @ v


@spelled(A, Q, K, V, PAD)
def way_18(q, k, v, p):
    z = q @ k.swapaxes(-1, -2) * 0.5
    z = mx.where(p[:, None, None, :], z, -1e30)
    z = mx.where(M, z, -1e30)
    return mx.softmax(z, -1) @ v


@spelled(A, Q, K, V)
def way_19(q, k, v):
    z = 50 * mx.tanh(q @ k.swapaxes(-1, -2) * 0.5 / 50)
    return mx.softmax(z, -1) @ v


@spelled(A, Q, K, V)
def way_20(q, k, v):
    z = q @ k.swapaxes(-1, -2) * 0.5
    w = mx.exp(z - z.max(-1, keepdims=True))
    return (w @ v) / w.sum(-1, keepdims=True)


@spelled(A, Q, K, V)
def way_21(q, k, v):
    kt = k.transpose(0, 1, 3, 2) * 0.5
    return mx.softmax(q @ kt, -1) @ v


@spelled(A, Q[0, 0], K[0, 0], V[0, 0])
def way_22(q, k, v):
    return mx.softmax(q @ k.T / math.sqrt(q.shape[-1]), -1) @ v


@spelled(A, Q[0], K[0], V[0])
def way_23(q, k, v):
    return mx.softmax(mx.einsum("hqd,hkd->hqk", q, k) * 0.5, -1) @ v


@spelled(A, Q, K, V, M)
def way_24(q, k, v, m):
    z = q @ k.swapaxes(-1, -2) * 0.5
    return mx.softmax(mx.where(mx.logical_not(m), mx.array(-1e4, z.dtype), z), -1) @ v


@spelled(A, Q, K, V)
def way_25(q, k, v):
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask="causal")


@spelled(A, Q, K, V)
def way_28(q, k, v):
    z = q @ k.swapaxes(-1, -2) * 0.5
    z = z - z.max(-1, keepdims=True)
    w = mx.softmax(z, -1)
    return w @ v


@spelled(A, Q, K, V)
def way_29(q, k, v):
    z = q @ k.swapaxes(-1, -2) * 0.5
    return mx.exp(z - mx.logsumexp(z, -1, keepdims=True)) @ v


@spelled(A, Q, K, V, mx.zeros((H, L, L)))
def way_31(q, k, v, b):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5 + b[None], -1) @ v


@spelled(A, Q, K, V)
def way_32(q, k, v):
    d = mx.arange(L)[:, None] - mx.arange(L)[None]
    sl = mx.array([0.5, 0.25])[:, None, None]
    z = q @ k.swapaxes(-1, -2) * 0.5 - sl * mx.abs(d)
    return mx.softmax(z, -1) @ v


@spelled(A, Q, K, V)
def way_33(q, k, v):
    d = mx.arange(L)[:, None] - mx.arange(L)[None]
    m = (d >= 0) & (d < 3)
    return mx.softmax(mx.where(m, q @ k.swapaxes(-1, -2) * 0.5, -mx.inf), -1) @ v


@spelled(A, Q, K, V, mx.zeros((H,)))
def way_34(q, k, v, sk):
    z = q @ k.swapaxes(-1, -2) * 0.5
    c = mx.broadcast_to(sk[None, :, None, None], (B, H, L, 1))
    return mx.softmax(mx.concatenate([z, c], -1), -1)[..., :-1] @ v


@spelled(A, Q, K, V, PAD)
def way_35(q, k, v, p):
    return (
        mx.softmax(q @ k.swapaxes(-1, -2) * 0.5 + mx.log(p.astype(mx.float32))[:, None, None], -1)
        @ v
    )


@spelled(A, Q, K, V)
def way_36(q, k, v):
    return mx.softmax(mx.addmm(MF, q, k.swapaxes(-1, -2), alpha=0.5), -1) @ v


@spelled(A, Q, K, V)
def way_37(q, k, v):
    z = (q / D**0.25) @ (k / D**0.25).swapaxes(-1, -2)
    return mx.softmax(z, -1) @ v


@spelled(A, Q, K, V)
def way_39(q, k, v):
    # l2 normed queries and keys with scale
    n = lambda t: t * mx.rsqrt(mx.sum(t * t, -1, keepdims=True) + 1e-6)
    return mx.softmax(n(q) @ n(k).swapaxes(-1, -2) * 10.0, -1) @ v


@spelled(N, Q, K, V)
def near_1(q, k, v):
    return mx.softmax(q @ k.swapaxes(-1, -2) * 0.5, axis=-2) @ v


@spelled(N, Q, K, V)
def near_2(q, k, v):
    return (q @ k.swapaxes(-1, -2) * 0.5) @ v


@spelled(N, Q, K, V)
def near_3(q, k, v):
    return mx.sigmoid(q @ k.swapaxes(-1, -2) * 0.5) @ v


@spelled(N, Q, K, V)
def near_4(q, k, v):
    w = mx.softmax(q @ k.swapaxes(-1, -2) * 0.5, -1)
    w = w * M
    return w @ v


@spelled(N, Q, K, V)
def near_5(q, k, v):
    z = q @ k.swapaxes(-1, -2) * 0.5
    w = mx.exp(z - z.max(-1, keepdims=True))
    return (w @ v) / w.sum(-2, keepdims=True).swapaxes(-1, -2)


@spelled(N, Q, K, V, M)
def near_6(q, k, v, m):
    return mx.softmax(mx.where(m, q @ k.swapaxes(-1, -2), 0.0), -1) @ v


@spelled(N, Q, K, V)
def near_7(q, k, v):
    z = q @ k.swapaxes(-1, -2) * 0.5
    return (mx.softmax(z, -1) ** 2) @ v
