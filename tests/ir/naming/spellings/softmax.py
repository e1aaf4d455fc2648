"""Softmax, log-softmax, log-sum-exp and cross-entropy as people write them."""

# mypy: ignore-errors
# ruff: noqa

import mlx.core as mx

from tests.ir.naming.spelling import spelled

X = mx.random.normal((2, 6, 32), key=mx.random.key(0))
H = X.astype(mx.float16)
B = X.astype(mx.bfloat16)
W = mx.random.normal((32,), key=mx.random.key(1))
WH = W.astype(mx.float16)
BIAS = mx.random.normal((32,), key=mx.random.key(2))
BH = BIAS.astype(mx.float16)
I4 = mx.random.normal((2, 8, 5, 5), key=mx.random.key(3))


@spelled("softmax", X)
def sm_plain(x):
    e = mx.exp(x - mx.max(x, -1, keepdims=True))
    return e / mx.sum(e, -1, keepdims=True)


@spelled("softmax", X)
def sm_stop(x):
    e = mx.exp(x - mx.stop_gradient(mx.max(x, -1, keepdims=True)))
    return e / e.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_recip(x):
    e = mx.exp(x - x.max(-1)[..., None])
    return e * mx.reciprocal(e.sum(-1))[..., None]


@spelled("softmax", X)
def sm_unsafe(x):
    return mx.exp(x) / mx.exp(x).sum(axis=-1, keepdims=True)


@spelled("softmax", X)
def sm_axis1(x):
    e = mx.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@spelled("softmax", X)
def sm_lse(x):
    return mx.exp(x - mx.logsumexp(x, -1, keepdims=True))


@spelled("softmax", H)
def sm_f32(x):
    h = x.astype(mx.float32)
    e = mx.exp(h - h.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


@spelled("softmax", X)
def sm_neg(x):
    e = mx.exp(-(mx.max(x, -1, keepdims=True) - x))
    return e / e.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_amax_where(x):
    z = mx.where(mx.tril(mx.ones((6, 32))) > 0, x, -1e9)
    e = mx.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_temp(x):
    z = x / 0.7
    e = mx.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_vmap(x):
    def f(r):
        e = mx.exp(r - r.max())
        return e / e.sum()

    return mx.vmap(mx.vmap(f))(x)


@spelled("softmax", X)
def sm_einsum(x):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / mx.einsum("bld->bl", e)[:, :, None]


@spelled("softmax", X)
def sm_minus_neg(x):
    e = mx.exp(x + -x.max(-1, keepdims=True))
    return mx.divide(e, mx.sum(e, axis=2, keepdims=True))


@spelled("softmax", X)
def sm_min_neg(x):
    # shift by -min(-x)
    e = mx.exp(x + mx.min(-x, axis=-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@spelled("log_softmax", X)
def lsm_plain(x):
    z = x - x.max(-1, keepdims=True)
    return z - mx.log(mx.exp(z).sum(-1, keepdims=True))


@spelled("log_softmax", X)
def lsm_log(x):
    return mx.log(mx.softmax(x, -1))


@spelled("log_softmax", X)
def lsm_mlx(x):
    return x - mx.logsumexp(x, axis=-1)[..., None]


@spelled("log_softmax", X)
def lsm_neg(x):
    return -(mx.logsumexp(x, axis=-1, keepdims=True) - x)


@spelled("logsumexp", X)
def lse_plain(x):
    m = x.max(-1, keepdims=True)
    return (m + mx.log(mx.exp(x - m).sum(-1, keepdims=True))).squeeze(-1)


@spelled("logsumexp", X)
def lse_unsafe(x):
    return mx.log(mx.sum(mx.exp(x), axis=-1))


@spelled("logsumexp", X)
def lse_squeezed(x):
    m = x.max(-1)
    return m + mx.log(mx.exp(x - m[..., None]).sum(-1))


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_take(x, t):
    return mx.logsumexp(x, -1) - mx.take_along_axis(x, t[:, None], -1).squeeze(-1)


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_neg(x, t):
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return -mx.take_along_axis(lp, t[:, None], -1)[:, 0]


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_index(x, t):
    lp = mx.log(mx.softmax(x, -1))
    return -lp[mx.arange(6), t]


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_averaged(x, t):
    return mx.mean(mx.logsumexp(x, -1) - mx.take_along_axis(x, t[:, None], -1).squeeze(-1))


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_onehot(x, t):
    oh = (mx.arange(32) == t[:, None]).astype(mx.float32)
    return -mx.sum(oh * (x - mx.logsumexp(x, -1, keepdims=True)), -1)


@spelled("cross_entropy", X[0], mx.arange(6))
def ce_where(x, t):
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return -mx.sum(mx.where(mx.arange(32)[None] == t[:, None], lp, 0), axis=-1)
