"""Gates of mixtures of experts as people write them, and what only looks like one."""

# mypy: ignore-errors
# ruff: noqa

import mlx.core as mx

from tests.ir.naming.spelling import spelled

X = mx.random.normal((6, 16), key=mx.random.key(0))
BIAS = mx.zeros((16,))
W = mx.random.normal((16, 32))
HX = mx.random.normal((6, 32))
G = "moe_gate"


def take(a, i):
    return mx.take_along_axis(a, i, axis=-1)


N = (G,)


@spelled(G, X)
def mixtral(g):
    k = 2
    inds = mx.stop_gradient(mx.argpartition(-g, kth=k - 1, axis=-1)[..., :k])
    sc = take(g, inds)
    return inds, mx.softmax(sc, axis=-1, precise=True)


@spelled(G, X)
def qwen(g):
    g = mx.softmax(g, axis=-1, precise=True)
    k = 4
    inds = mx.argpartition(g, kth=-k, axis=-1)[..., -k:]
    sc = take(g, inds)
    sc = sc / sc.sum(-1, keepdims=True)
    return inds, sc


@spelled(G, X)
def qwen_sum_none(g):
    g = mx.softmax(g, -1)
    inds = mx.argsort(g, axis=-1)[:, -4:]
    sc = take(g, inds)
    return sc / mx.sum(sc, axis=1)[:, None]


@spelled(G, X, BIAS)
def deepseek(g, b):
    sc = mx.sigmoid(g.astype(mx.float32))
    o = sc
    sc = sc + b
    inds = mx.argpartition(-sc, kth=3, axis=-1)[..., :4]
    w = take(o, inds)
    w = w / (w.sum(-1, keepdims=True) + 1e-20)
    return inds, w * 2.5


@spelled(G, X)
def gptoss(g):
    inds = mx.argpartition(g, kth=-4, axis=-1)[..., -4:]
    w = take(g, inds)
    e = mx.exp(w - w.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@spelled(G, X)
def switch(g):
    p = mx.softmax(g, -1)
    i = mx.argmax(p, -1)
    return take(p, i[:, None]).squeeze(-1)


@spelled(G, X)
def llama4(g):
    i = mx.argpartition(-g, kth=0, axis=-1)[..., :1]
    return i, mx.sigmoid(take(g, i))


@spelled(G, X)
def argsort_desc(g):
    i = mx.argsort(-g, -1)[:, :4]
    p = mx.softmax(g, -1)
    return take(p, i)


@spelled(G, X)
def fancy(g):
    i = mx.argsort(-g, -1)[:, :4]
    p = mx.softmax(g, -1)
    return p[mx.arange(6)[:, None], i]


@spelled(G, X)
def subtract0(g):
    i = mx.argpartition(0 - g, kth=3, axis=-1)[:, :4]
    return mx.softmax(take(g, i), -1)


@spelled(G, X, BIAS)
def biased_exp(g, b):
    sc = 1 / (1 + mx.exp(-g))
    i = mx.argpartition(-(sc + b[None]), kth=3, axis=-1)[:, :4]
    w = take(sc, i)
    return w / w.sum(-1, keepdims=True)


@spelled(G, X)
def recip(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(-p, kth=3, axis=-1)[:, :4]
    w = take(p, i)
    return w * mx.reciprocal(w.sum(-1, keepdims=True))


@spelled(G, X)
def maxden(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(-p, kth=3, axis=-1)[:, :4]
    w = take(p, i)
    return w / mx.maximum(w.sum(-1, keepdims=True), 1e-12)


@spelled(G, X)
def split_part(g):
    i = mx.split(mx.argpartition(-g, kth=3, axis=-1), [4], axis=-1)[0]
    return mx.softmax(take(g, i), -1)


@spelled(G, HX, W)
def from_linear(x, w):
    g = x @ w.T
    g = mx.softmax(g.astype(mx.float32), -1)
    i = mx.argpartition(-g, kth=1, axis=-1)[:, :2]
    v = take(g, i)
    return v / v.sum(-1, keepdims=True)


@spelled(G, X)
def topk_vals(g):
    v = mx.topk(g, 4, axis=-1)
    return mx.softmax(v, -1)


@spelled(G, X)
def expand3d(g):
    g = g.reshape(2, 3, 16)
    i = mx.argpartition(-g, kth=3, axis=2)[:, :, :4]
    p = mx.softmax(g, axis=2)
    w = mx.take_along_axis(p, i, axis=2)
    return w / w.sum(axis=2, keepdims=True)


@spelled(G, X)
def scaled_after(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(-p, kth=3, axis=-1)[:, :4]
    w = take(p, i)
    return w / w.sum(-1, keepdims=True) * 1.5


@spelled(G, X)
def sqrtsoftplus(g):
    p = mx.sqrt(mx.logaddexp(g, 0))
    i = mx.argpartition(-p, kth=3, axis=-1)[:, :4]
    w = take(p, i)
    return w / w.sum(-1, keepdims=True)


@spelled(N, X)
def no_other(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(p, kth=3, axis=-1)[:, :4]
    return take(p, i)


@spelled(N, X)
def no_axis0(g):
    p = mx.softmax(g, 0)
    i = mx.argpartition(-p, kth=3, axis=-1)[:, :4]
    return take(p, i)


@spelled(N, X)
def no_rank(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(-mx.abs(g), kth=3, axis=-1)[:, :4]
    return take(p, i)


@spelled(N, X)
def no_kth(g):
    p = mx.softmax(g, -1)
    i = mx.argpartition(-p, kth=2, axis=-1)[:, :4]
    return take(p, i)


@spelled(N, X)
def no_total(g):
    p = mx.softmax(g, -1)
    i = mx.argsort(-p, axis=-1)[:, 2:6]
    return take(p, i)
