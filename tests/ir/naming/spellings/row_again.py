"""Norms, softmax and losses in further spellings, and what only looks like one."""

# mypy: ignore-errors
# ruff: noqa

import math
import mlx.core as mx
import mlx.nn as nn
from tests.ir.naming.spelling import spelled

X = mx.random.normal((2, 6, 32), key=mx.random.key(0))
Y = mx.random.normal((2, 6, 32), key=mx.random.key(3))
W = mx.random.normal((32,), key=mx.random.key(1))
BI = mx.random.normal((32,), key=mx.random.key(2))
H = X.astype(mx.float16)
T = mx.arange(6)


@spelled("rms_norm", X, W)
def rms_dot(x, w):
    ms = (x[..., None, :] @ x[..., :, None]).squeeze(-1) / 32
    return x * mx.rsqrt(ms + 1e-05) * w


@spelled("rms_norm", X, W)
def rms_norm_div_n_sqrt(x, w):
    return x / (mx.linalg.norm(x, axis=-1, keepdims=True) / math.sqrt(32)) * w


@spelled("rms_norm", X, W)
def rms_inner_prod(x, w):
    return x * w * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-06)


@spelled("rms_norm", X, W)
def rms_w_over(x, w):
    return x * (w / mx.sqrt(mx.mean(x * x, -1, keepdims=True) + 1e-06))


@spelled("rms_norm", X, W)
def rms_w_times_inv(x, w):
    return x * (w * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-06))


@spelled("rms_norm", X, W)
def rms_einsum2(x, w):
    return mx.einsum("bld,d->bld", x * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-06), w)


@spelled("rms_norm", X, W)
def rms_neg_one_pow(x, w):
    return x * mx.sqrt(mx.mean(x * x, -1, keepdims=True) + 1e-06) ** (-1) * w


@spelled("rms_norm", X)
def rms_sum_over_len(x):
    v = mx.sum(mx.square(x), axis=-1, keepdims=True)
    return x * mx.rsqrt(v * (1 / 32) + 1e-06)


@spelled("rms_norm", X, W)
def rms_fast_no_weight_then(x, w):
    return mx.fast.rms_norm(x, None, 1e-06) * w


@spelled("rms_norm", X, W)
def rms_one_plus(x, w):
    return mx.fast.rms_norm(x, 1.0 + w, 1e-06)


@spelled("layer_norm", X, W, BI)
def ln_moments(x, w, b):
    m = mx.mean(x, -1, keepdims=True)
    v = mx.mean(mx.square(x), -1, keepdims=True) - mx.square(m)
    s = w * mx.rsqrt(v + 1e-05)
    return x * s + (b - m * s)


@spelled("layer_norm", X, W, BI)
def ln_std_eps(x, w, b):
    c = x - x.mean(-1, keepdims=True)
    return c / mx.sqrt((c**2).mean(-1, keepdims=True) + 1e-05) * w + b


@spelled("layer_norm", X, W, BI)
def ln_flat(x, w, b):
    f = x.reshape(-1, 32)
    c = f - f.mean(1)[:, None]
    return (w[None] * c / mx.sqrt(mx.mean(c * c, axis=1)[:, None] + 1e-05) + b[None]).reshape(
        x.shape
    )


@spelled("layer_norm", X, W, BI)
def ln_centre_matrix(x, w, b):
    c = x - mx.sum(x, -1, keepdims=True) * (1.0 / 32)
    return w * (c * mx.power(mx.sum(c * c, -1, keepdims=True) * (1.0 / 32) + 1e-05, -0.5)) + b


@spelled("layer_norm", X, W, BI)
def ln_var_by_hand(x, w, b):
    mu = mx.mean(x, axis=-1, keepdims=True)
    var = mx.mean(mx.abs(x - mu) ** 2, axis=-1, keepdims=True)
    return b + (x - mu) * w / mx.sqrt(var + 1e-05)


@spelled("softmax", X)
def sm_sub_lse(x):
    m = x.max(-1, keepdims=True)
    return mx.exp(x - (m + mx.log(mx.exp(x - m).sum(-1, keepdims=True))))


@spelled("softmax", X)
def sm_exp2_log2(x):
    z = (x - x.max(-1, keepdims=True)) * math.log2(math.e)
    p = 2**z
    return p / p.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_max_all(x):
    e = mx.exp(x - x.max())
    return e / e.sum(-1, keepdims=True)


@spelled("softmax", X)
def sm_const_shift(x):
    e = mx.exp(x - 5.0)
    return e / mx.sum(e, -1, keepdims=True)


@spelled("softmax", X)
def sm_transposed(x):
    y = x.swapaxes(1, 2)
    e = mx.exp(y - y.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).swapaxes(1, 2)


@spelled("softmax", X)
def sm_of_log_softmax(x):
    return mx.exp(nn.log_softmax(x, axis=-1))


@spelled("softmax", X)
def sm_clip_den(x):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / mx.clip(e.sum(-1, keepdims=True), 1e-09, None)


@spelled("softmax", X)
def sm_pow(x):
    e = mx.power(math.e, x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@spelled("log_softmax", X)
def lsm_div(x):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return mx.log(e / e.sum(-1, keepdims=True))


@spelled("log_softmax", X)
def lsm_minus_both(x):
    m = x.max(-1, keepdims=True)
    return x - m - mx.log(mx.sum(mx.exp(x - m), -1, keepdims=True))


@spelled("log_softmax", X)
def lsm_minus_sum(x):
    m = x.max(-1, keepdims=True)
    return x - (m + mx.log(mx.sum(mx.exp(x - m), -1, keepdims=True)))


@spelled("logsumexp", X)
def lse_scan(x):
    return mx.logaddexp(mx.logsumexp(x, -1), mx.full((2, 6), -mx.inf))


@spelled("logsumexp", X)
def lse_stop(x):
    m = mx.stop_gradient(mx.max(x, axis=-1, keepdims=True))
    return mx.squeeze(mx.log(mx.sum(mx.exp(x - m), axis=-1, keepdims=True)) + m, -1)


@spelled("cross_entropy", X[0], T)
def ce_lsm_take(x, t):
    lp = nn.log_softmax(x, axis=-1)
    return -mx.take_along_axis(lp, t[:, None], axis=-1).squeeze(-1)


@spelled("cross_entropy", X[0], T)
def ce_nn(x, t):
    return nn.losses.cross_entropy(x, t)


@spelled("cross_entropy", X[0], T)
def ce_nn_mean(x, t):
    return nn.losses.cross_entropy(x, t, reduction="mean")


@spelled("cross_entropy", X[0], T)
def ce_sum_masked(x, t):
    m = x.max(-1, keepdims=True)
    z = x - m
    lse = mx.log(mx.exp(z).sum(-1))
    return lse - mx.take_along_axis(z, t[:, None], -1)[:, 0]


@spelled("log_likelihood", X[0], T)
def ce_negated_behind_its_mean(x, t):
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return -mx.take_along_axis(lp, t[:, None], -1).mean()


@spelled("log_likelihood", X[0], T)
def ll_of_logged_softmax(x, t):
    return mx.take_along_axis(mx.log(mx.softmax(x, -1)), t[:, None], -1).sum() / -6


@spelled("log_likelihood", X[0], T)
def ll_of_shifted(x, t):
    m = x.max(-1, keepdims=True)
    z = x - m
    lse = mx.log(mx.exp(z).sum(-1))
    return mx.take_along_axis(z, t[:, None], -1)[:, 0] - lse


@spelled(("log_likelihood",), X[0], T)
def ll_of_another_row(x, t):
    return mx.take_along_axis(x, t[:, None], -1)[:, 0] - mx.logsumexp(2 * x, -1)


@spelled("cross_entropy", X, mx.zeros((2, 6), mx.int32))
def ce_3d(x, t):
    lp = x - mx.logsumexp(x, -1, keepdims=True)
    return -mx.take_along_axis(lp, mx.expand_dims(t, -1), axis=-1)[..., 0]


N3 = ("rms_norm", "layer_norm")


@spelled(N3, X, W)
def l1_norm(x, w):
    return x / (mx.mean(mx.abs(x), -1, keepdims=True) + 1e-06) * w


@spelled(N3, X, Y)
def rms_of_sum(x, y):
    return x * mx.rsqrt(mx.mean(x * y, -1, keepdims=True) + 1e-06)


@spelled(N3, X)
def rms_partial(x):
    return x * mx.rsqrt(mx.mean(mx.square(x[..., :16]), -1, keepdims=True) + 1e-06)


@spelled(("layer_norm",), X)
def ln_median(x):
    return (x - x.max(-1, keepdims=True)) * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-06)


@spelled(("layer_norm",), X)
def ln_centre_twice_mean(x):
    return (x - 2 * x.mean(-1, keepdims=True)) * mx.rsqrt(mx.var(x, -1, keepdims=True) + 1e-06)


@spelled(("softmax",), X)
def sm_no_exp(x):
    return x / x.sum(-1, keepdims=True)


@spelled(("softmax",), X)
def sm_sigmoid_norm(x):
    s = mx.sigmoid(x)
    return s / s.sum(-1, keepdims=True)


@spelled(("softmax",), X)
def sm_one(x):
    return mx.exp(x) / (mx.exp(x).sum(-1, keepdims=True) + 1.0)


@spelled(("softmax",), X)
def sm_masked_after(x):
    e = mx.exp(x - x.max(-1, keepdims=True))
    return e / (e * (mx.arange(32) < 5)).sum(-1, keepdims=True)


@spelled(("cross_entropy",), X[0], T)
def ce_other_target(x, t):
    lp = nn.log_softmax(x, -1)
    return mx.take_along_axis(lp, t[:, None], -1).squeeze(-1)


@spelled(("cross_entropy",), X[0], T)
def ce_smooth(x, t):
    return mx.logsumexp(x, -1) - mx.take_along_axis(2 * x, t[:, None], -1).squeeze(-1)
