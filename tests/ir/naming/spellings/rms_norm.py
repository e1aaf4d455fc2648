"""Root mean square norms as people write them."""

# mypy: ignore-errors
# ruff: noqa

import math

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


@spelled("rms_norm", H, WH)
def rms_llama(x, w):
    d = x.dtype
    h = x.astype(mx.float32)
    v = mx.power(h, 2).mean(-1, keepdims=True)
    h = h * mx.rsqrt(v + 1e-6)
    return w * h.astype(d)


@spelled("rms_norm", X, W)
def rms_sum_n(x, w):
    ms = mx.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]
    return x / mx.sqrt(ms + 1e-5) * w


@spelled("rms_norm", X, W)
def rms_sum_recip(x, w):
    n = x.shape[-1]
    return w * (x * mx.rsqrt((1.0 / n) * mx.square(x).sum(-1, keepdims=True) + 1e-5))


@spelled("rms_norm", X, W)
def rms_linalg(x, w):
    # l2 norm * n^-0.5
    rms = mx.linalg.norm(x, axis=-1, keepdims=True) * x.shape[-1] ** -0.5
    return x / rms * w


@spelled("rms_norm", X)
def rms_einsum(x):
    ms = mx.einsum("bld,bld->bl", x, x) / x.shape[-1]
    return x * mx.rsqrt(ms + 1e-6)[..., None]


@spelled("rms_norm", X)
def rms_expand(x):
    ms = mx.mean(x**2, axis=2)
    return x / mx.sqrt(mx.expand_dims(ms, 2) + 1e-6)


@spelled("rms_norm", H, WH)
def rms_gemma(x, w):
    y = x.astype(mx.float32)
    y = y * mx.rsqrt(mx.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return (y * (1.0 + w.astype(mx.float32))).astype(x.dtype)


@spelled("rms_norm", X, W)
def rms_recip(x, w):
    return w * x * mx.reciprocal(mx.sqrt(mx.mean(mx.square(x), -1, keepdims=True) + 1e-5))


@spelled("rms_norm", X, W)
def rms_one_over(x, w):
    inv = 1 / mx.sqrt(mx.mean(mx.square(x), -1, keepdims=True) + 1e-5)
    return inv * x * w


@spelled("rms_norm", X, W)
def rms_pow(x, w):
    return x * ((x.square().mean(-1, keepdims=True) + 1e-5) ** -0.5) * w


@spelled("rms_norm", X, W)
def rms_pow_half(x, w):
    return x / ((x.square().mean(-1, keepdims=True) + 1e-5) ** 0.5) * w


@spelled("rms_norm", X, W)
def rms_eps_first(x, w):
    return x * mx.rsqrt(1e-5 + mx.mean(x * x, -1, keepdims=True)) * w


@spelled("rms_norm", X, W)
def rms_keepdims_none(x, w):
    return w[None, None, :] * (x * mx.rsqrt(mx.mean(x * x, -1) + 1e-5)[:, :, None])


@spelled("rms_norm", X, W)
def rms_scaled_n(x, w):
    # x * sqrt(n) / sqrt(sum x^2 + eps)
    return x * math.sqrt(x.shape[-1]) * mx.rsqrt(mx.sum(x * x, -1, keepdims=True) + 1e-5) * w


@spelled("rms_norm", X, W)
def rms_heads(x, w):
    q = x.reshape(2, 6, 4, 8).transpose(0, 2, 1, 3)
    return q * mx.rsqrt(mx.mean(q * q, axis=-1, keepdims=True) + 1e-6) * w[:8]


@spelled(("rms_norm",), X, W)
def rms_clip(x, w):
    return x * mx.rsqrt(mx.maximum(mx.mean(x * x, -1, keepdims=True), 1e-6)) * w


@spelled("rms_norm", B, W)
def rms_bf16_w32(x, w):
    y = x.astype(mx.float32)
    y = y / mx.sqrt(mx.mean(mx.square(y), axis=-1, keepdims=True) + 1e-6)
    return (y * w).astype(mx.bfloat16)


@spelled("rms_norm", X)
def rms_multiply(x):
    ms = mx.sum(mx.multiply(x, x), axis=-1, keepdims=True) * 0.03125
    return mx.multiply(x, mx.rsqrt(mx.add(ms, 1e-6)))


@spelled("rms_norm", X, X, W)
def rms_residual(x, r, w):
    h = x + r
    return h * mx.rsqrt(mx.mean(h * h, -1, keepdims=True) + 1e-5) * w


@spelled("rms_norm", X, W)
def rms_flat(x, w):
    f = x.reshape(-1, 32)
    f = f * mx.rsqrt((f * f).mean(axis=1)[:, None] + 1e-5)
    return (f * w).reshape(x.shape)


@spelled("rms_norm", X, W, X)
def rms_gated_mamba(x, w, z):
    x = x * (z * mx.sigmoid(z))
    return w * (x * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-5))


@spelled("rms_norm", X, W)
def rms_var_naming(x, w):
    variance = mx.mean(mx.abs(x) * mx.abs(x), axis=-1, keepdims=True)
    return mx.divide(x, mx.sqrt(variance + mx.array(1e-5))) * w


@spelled("rms_norm", X)
def rms_broadcast(x):
    n = mx.sqrt(mx.sum(mx.square(x), axis=-1, keepdims=True) / 32 + 1e-6)
    return x / mx.broadcast_to(n, x.shape)


@spelled("rms_norm", X)
def rms_vmap(x):
    f = lambda r: r * mx.rsqrt(mx.mean(r * r) + 1e-6)
    return mx.vmap(mx.vmap(f))(x)


@spelled("rms_norm", X, W)
def rms_first_axis(x, w):
    y = x.swapaxes(0, 2)
    y = y * mx.rsqrt(mx.mean(y * y, axis=0, keepdims=True) + 1e-5)
    return y.swapaxes(0, 2) * w


@spelled("rms_norm", X, W)
def rms_variance_and_mean(x, w):
    m = mx.mean(x, axis=-1, keepdims=True)
    return x / mx.sqrt(mx.var(x, axis=-1, keepdims=True) + m * m + 1e-5) * w


@spelled(("rms_norm",), X, W)
def rms_corrected_variance_and_mean(x, w):
    m = mx.mean(x, axis=-1, keepdims=True)
    return x / mx.sqrt(mx.var(x, axis=-1, keepdims=True, ddof=1) + m * m + 1e-5) * w


@spelled(("rms_norm",), X, W)
def rms_variance_and_other_mean(x, w):
    m = mx.mean(x, axis=1, keepdims=True)
    return x / mx.sqrt(mx.var(x, axis=-1, keepdims=True) + m * m + 1e-5) * w
