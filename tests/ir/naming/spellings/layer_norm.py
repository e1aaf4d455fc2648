"""Layer norms as people write them."""

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


@spelled("layer_norm", X, W, BIAS)
def ln_plain(x, w, b):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return w * (x - mu) / mx.sqrt(var + 1e-5) + b


@spelled("layer_norm", X, W, BIAS)
def ln_centered(x, w, b):
    c = x - mx.mean(x, -1, keepdims=True)
    return b + w * c * mx.rsqrt(mx.mean(c * c, -1, keepdims=True) + 1e-5)


@spelled("layer_norm", X, W, BIAS)
def ln_e2(x, w, b):
    m = mx.mean(x, -1, keepdims=True)
    v = mx.mean(x * x, -1, keepdims=True) - m * m
    return (x - m) * mx.rsqrt(v + 1e-5) * w + b


@spelled("layer_norm", X, W, BIAS)
def ln_sums(x, w, b):
    n = x.shape[-1]
    m = x.sum(-1, keepdims=True) / n
    v = ((x - m) ** 2).sum(-1, keepdims=True) / n
    return (x - m) / (v + 1e-5) ** 0.5 * w + b


@spelled("layer_norm", H, WH, BH)
def ln_f32(x, w, b):
    h = x.astype(mx.float32)
    m = mx.mean(h, axis=-1, keepdims=True)
    v = mx.var(h, axis=-1, keepdims=True)
    return ((h - m) * mx.rsqrt(v + 1e-5)).astype(x.dtype) * w + b


@spelled("layer_norm", X)
def ln_bare(x):
    return (x - x.mean(2)[..., None]) / mx.sqrt(x.var(2)[..., None] + 1e-5)


@spelled("layer_norm", X, W)
def ln_nobias(x, w):
    c = x - mx.mean(x, axis=-1, keepdims=True)
    return c / mx.sqrt(mx.mean(mx.square(c), axis=-1, keepdims=True) + 1e-5) * w


@spelled("layer_norm", X, BIAS)
def ln_noweight(x, b):
    c = x - mx.mean(x, axis=-1, keepdims=True)
    return c * mx.rsqrt(mx.mean(mx.square(c), axis=-1, keepdims=True) + 1e-5) + b


@spelled("layer_norm", X, W, BIAS)
def ln_addmm_neg(x, w, b):
    m = -mx.mean(x, -1, keepdims=True)
    c = x + m
    return c * mx.rsqrt(mx.mean(c * c, -1, keepdims=True) + 1e-5) * w + b


@spelled("layer_norm", X, W, BIAS)
def ln_std(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / (mx.std(x, axis=-1, keepdims=True)) * w + b


@spelled("layer_norm", X, W, BIAS, W)
def ln_adaln(x, scale, shift, _):
    c = x - mx.mean(x, -1, keepdims=True)
    n = c * mx.rsqrt(mx.mean(c * c, -1, keepdims=True) + 1e-6)
    return n * (1 + scale) + shift


@spelled("layer_norm", I4)
def instance_norm(x):
    m = x.mean(axis=(2, 3), keepdims=True)
    v = x.var(axis=(2, 3), keepdims=True)
    return (x - m) * mx.rsqrt(v + 1e-5)


@spelled("layer_norm", I4)
def group_norm(x):
    g = x.reshape(2, 4, -1)
    m = g.mean(-1, keepdims=True)
    v = g.var(-1, keepdims=True)
    return ((g - m) * mx.rsqrt(v + 1e-5)).reshape(x.shape)


@spelled("layer_norm", X)
def ln_ddof(x):
    m = x.mean(-1, keepdims=True)
    v = mx.var(x, -1, keepdims=True, ddof=1)
    return (x - m) / mx.sqrt(v + 1e-5)


@spelled("layer_norm", X, W, BIAS)
def ln_subtract_rev(x, w, b):
    c = mx.negative(mx.mean(x, -1, keepdims=True) - x)
    return c * mx.rsqrt(mx.mean(mx.square(c), -1, keepdims=True) + 1e-5) * w + b


@spelled("layer_norm", X, W, BIAS)
def ln_transposed(x, w, b):
    y = x.transpose(0, 2, 1)
    m = y.mean(1, keepdims=True)
    v = y.var(1, keepdims=True)
    return ((y - m) / mx.sqrt(v + 1e-5) * w[:, None] + b[:, None]).transpose(0, 2, 1)
