"""What only looks like a norm, a softmax or a loss."""

# mypy: ignore-errors
# ruff: noqa

import math

import mlx.core as mx

from tests.ir.naming.spelling import spelled

X = mx.random.normal((2, 6, 32), key=mx.random.key(0))
W = mx.random.normal((32,), key=mx.random.key(1))
Y = mx.random.normal((2, 6, 32), key=mx.random.key(3))
R = "rms_norm"
Ln = "layer_norm"


@spelled((R,), X, Y, W)
def eps_outside(x, y, w):
    return x / (mx.sqrt(mx.mean(x * x, -1, keepdims=True)) + 1e-6) * w


@spelled((R,), X, Y, W)
def eps_inside_square(x, y, w):
    return x * mx.rsqrt(mx.mean((x + 1e-6) * (x + 1e-6), -1, keepdims=True))


@spelled((R,), X, Y, W)
def other_x(x, y, w):
    return x * mx.rsqrt(mx.mean(y * y, -1, keepdims=True) + 1e-6)


@spelled((R,), X, Y, W)
def missing_root(x, y, w):
    return x / (mx.mean(x * x, -1, keepdims=True) + 1e-6)


@spelled((R,), X, Y, W)
def sum_not_mean(x, y, w):
    return x * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) + 1e-6)


@spelled((R,), X, Y, W)
def wrong_n(x, y, w):
    return x * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) / 31 + 1e-6)


@spelled((R,), X, Y, W)
def cube(x, y, w):
    return x * mx.rsqrt(mx.mean(mx.abs(x * x * x), -1, keepdims=True) + 1e-6)


@spelled((R,), X, Y, W)
def absx(x, y, w):
    return mx.abs(x) * mx.rsqrt(mx.mean(mx.abs(x), -1, keepdims=True) + 1e-6)


@spelled((R,), X, Y, W)
def twice_root(x, y, w):
    return x * mx.rsqrt(mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-6))


@spelled((R,), X, Y, W)
def maxed(x, y, w):
    return x * mx.rsqrt(mx.maximum(mx.mean(x * x, -1, keepdims=True), 1e-6))


@spelled((R,), X, Y, W)
def minus_eps(x, y, w):
    return x * mx.rsqrt(1e-6 - mx.mean(x * x, -1, keepdims=True))


@spelled((Ln,), X, Y, W)
def ln_nocenter(x, y, w):
    return x * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_other_mean(x, y, w):
    return (x - y.mean(-1, keepdims=True)) * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_axis(x, y, w):
    return (x - x.mean(1, keepdims=True)) * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_eps_out(x, y, w):
    return (x - x.mean(-1, keepdims=True)) / (mx.sqrt(mx.var(x, -1, keepdims=True)) + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_var_not_std(x, y, w):
    return (x - x.mean(-1, keepdims=True)) / (mx.var(x, -1, keepdims=True) + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_e2_plus(x, y, w):
    m = x.mean(-1, keepdims=True)
    return (x - m) * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + m * m + 1e-5)


@spelled((Ln,), X, Y, W)
def ln_plus_mean(x, y, w):
    return (x + x.mean(-1, keepdims=True)) * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)


@spelled(("softmax",), X, Y, W)
def sm_other(x, y, w):
    return mx.exp(x) / mx.exp(y).sum(-1, keepdims=True)


@spelled(("softmax",), X, Y, W)
def sm_shift_other(x, y, w):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / mx.exp(x).sum(-1, keepdims=True)


@spelled(("softmax",), X, Y, W)
def sm_plus_one(x, y, w):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / (1 + e.sum(-1, keepdims=True))


@spelled(("softmax",), X, Y, W)
def sm_mean(x, y, w):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / e.mean(-1, keepdims=True)


@spelled(("softmax",), X, Y, W)
def sm_expm1(x, y, w):
    e = mx.expm1(x)
    return e / e.sum(-1, keepdims=True)


@spelled(("softmax",), X, Y, W)
def sm_base2_only_below(x, y, w):
    return mx.power(2.0, x) / mx.exp(x).sum(-1, keepdims=True)


@spelled(
    (
        "softmax",
        "log_softmax",
    ),
    X,
    Y,
    W,
)
def lsm_plus(x, y, w):
    return x + mx.logsumexp(x, -1, keepdims=True)


@spelled(("log_softmax",), X, Y, W)
def lsm_axis(x, y, w):
    return x - mx.logsumexp(y, -1, keepdims=True)


@spelled(("rms_norm",), X, Y, W)
def scaled_n_wrong(x, y, w):
    return x * math.sqrt(31) * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) + 1e-5)


@spelled(("rms_norm",), X, Y, W)
def weighted_sum(x, y, w):
    return x * mx.rsqrt((x * x) @ mx.softmax(w)[:, None] + 1e-5)


@spelled(("layer_norm",), X, Y, W)
def dist_wrong(x, y, w):
    m = mx.mean(x, -1, keepdims=True)
    inv = mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)
    return x * inv * w + (w - m * inv)


@spelled(("layer_norm",), X, Y, W)
def dist_plus(x, y, w):
    m = mx.mean(x, -1, keepdims=True)
    inv = mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-5)
    return x * inv + m * inv


@spelled(("cross_entropy",), X, Y, W)
def ce_off(x, y, w):
    x = x[0]
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return -mx.sum(mx.where(mx.arange(32)[None] >= mx.arange(6)[:, None], lp, 0), -1)


@spelled(("cross_entropy",), X, Y, W)
def ce_sign(x, y, w):
    x = x[0]
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return mx.sum(mx.where(mx.arange(32)[None] == mx.arange(6)[:, None], lp, 0), -1)
