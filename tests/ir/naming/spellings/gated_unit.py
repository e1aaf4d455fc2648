"""Silu, the gelus and units that they gate, as people write them."""

# mypy: ignore-errors
# ruff: noqa

import math

import mlx.core as mx
import mlx.nn as nn

from tests.ir.naming.spelling import spelled

X = mx.random.normal((4, 32), key=mx.random.key(0))
Y = mx.random.normal((4, 32), key=mx.random.key(1))
H = X.astype(mx.float16)
HY = Y.astype(mx.float16)
XY = mx.random.normal((4, 64), key=mx.random.key(2))


@spelled("silu", X)
def silu_a(x):
    return x * mx.sigmoid(x)


@spelled("silu", X)
def silu_b(x):
    return x / (1 + mx.exp(-x))


@spelled("silu", X)
def silu_c(x):
    return x * (1 / (1 + mx.exp(-x)))


@spelled("silu", X)
def silu_d(x):
    return 0.5 * x * (1 + mx.tanh(0.5 * x))


@spelled("silu", X)
def silu_e(x):
    return x * mx.exp(x) / (mx.exp(x) + 1)


@spelled("silu", H)
def silu_f(x):
    y = x.astype(mx.float32)
    return (y * mx.sigmoid(y)).astype(x.dtype)


@spelled("silu", X)
def silu_g(x):
    return x - x * mx.sigmoid(-x)


@spelled("silu", X)
def silu_h(x):
    return mx.divide(x, mx.add(mx.exp(mx.negative(x)), 1.0))


@spelled("silu", X)
def silu_i(x):
    return x * mx.power(1 + mx.exp(-x), -1)


@spelled("silu", X)
def silu_k(x):
    return x * mx.where(x >= 0, 1 / (1 + mx.exp(-x)), mx.exp(x) / (1 + mx.exp(x)))


@spelled("silu", X)
def silu_m(x):
    return x * (mx.tanh(x / 2) + 1) / 2


@spelled("swiglu", X, Y)
def swiglu_a(x, y):
    return nn.silu(x) * y


@spelled("swiglu", X, Y)
def swiglu_b(x, y):
    return y * (x * mx.sigmoid(x))


@spelled("swiglu", XY)
def swiglu_c(x):
    a, b = x[..., :32], x[..., 32:]
    return a * mx.sigmoid(a) * b


@spelled("swiglu", XY)
def swiglu_d(x):
    a, b = mx.split(x.reshape(4, 2, 32), 2, axis=1)
    return (b * nn.silu(a)).squeeze(1)


@spelled("swiglu", XY)
def swiglu_e(x):
    a = x[:, ::2]
    b = x[:, 1::2]
    return b * a / (1 + mx.exp(-a))


@spelled("swiglu", H, HY)
def swiglu_f(x, y):
    g = x.astype(mx.float32)
    return (g * mx.sigmoid(g)).astype(mx.float16) * y


@spelled("swiglu", H, HY)
def swiglu_g(x, y):
    return (nn.silu(x.astype(mx.float32)) * y.astype(mx.float32)).astype(mx.float16)


@spelled("swiglu", X, Y)
def swiglu_h(x, y):
    return (x * y) * mx.sigmoid(x)


@spelled("swiglu", X, Y)
def swiglu_i(x, y):
    return mx.sigmoid(x) * y * x


@spelled("gelu", X)
def gelu_a(x):
    return 0.5 * x * (1 + mx.erf(x / math.sqrt(2)))


@spelled("gelu", X)
def gelu_b(x):
    return x * (0.5 + 0.5 * mx.erf(x * 0.70710678))


@spelled("gelu", X)
def gelu_c(x):
    return x * (1 + mx.erf(x / 1.4142135)) / 2


@spelled("gelu", X)
def gelu_d(x):
    return 0.5 * (x + x * mx.erf(x * 2**-0.5))


@spelled("gelu", X)
def gelu_e(x):
    return x * 0.5 * (1 - mx.erf(-x / 2**0.5))


@spelled("gelu", H)
def gelu_f(x):
    y = x.astype(mx.float32)
    return (y * 0.5 * (1.0 + mx.erf(y / math.sqrt(2.0)))).astype(x.dtype)


@spelled("gelu", X)
def gelu_g(x):
    return x - x * 0.5 * (1 - mx.erf(x / math.sqrt(2)))


@spelled("gelu", X)
def gelu_h(x):
    cdf = (mx.erf(x / mx.sqrt(mx.array(2.0))) + 1.0) / 2.0
    return x * cdf


@spelled("gelu_tanh", X)
def gt_a(x):
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@spelled("gelu_tanh", X)
def gt_b(x):
    return 0.5 * x * (1 + mx.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))


@spelled("gelu_tanh", X)
def gt_c(x):
    return x * mx.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))


@spelled("gelu_tanh", X)
def gt_d(x):
    inner = mx.power(x, 3) * 0.044715 + x
    return x * 0.5 * (mx.tanh(inner * 0.79788456) + 1)


@spelled("gelu_tanh", X)
def gt_e(x):
    u = x * x
    return x / (1 + mx.exp(-x * (1.5957691216 + 0.0713548162726 * u)))


@spelled("gelu_tanh", X)
def gt_f(x):
    c = mx.sqrt(mx.array(2.0 / math.pi))
    return 0.5 * x * (1.0 + mx.tanh(c * (x + 0.044715 * mx.power(x, 3.0))))


@spelled("gelu_tanh", H)
def gt_g(x):
    return 0.5 * x * (1.0 + mx.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


@spelled("gelu_tanh", X)
def gt_h(x):
    return mx.multiply(
        mx.multiply(0.5, x),
        mx.add(
            1.0,
            mx.tanh(
                mx.multiply(
                    0.797885, mx.add(x, mx.multiply(0.044715, mx.multiply(x, mx.multiply(x, x))))
                )
            ),
        ),
    )


@spelled("gelu_fast", X)
def gf_a(x):
    return x * mx.sigmoid(1.702 * x)


@spelled("gelu_fast", X)
def gf_b(x):
    return x / (1 + mx.exp(-1.702 * x))


@spelled("gelu_fast", X)
def gf_c(x):
    return x * mx.sigmoid(x * 1.702)


@spelled("geglu", XY)
def geglu_a(x):
    a, g = mx.split(x, 2, -1)
    return a * nn.gelu(g)


@spelled("geglu_tanh", X, Y)
def geglu_b(x, y):
    return nn.gelu_approx(x) * y


@spelled("geglu_tanh", XY)
def geglu_c(x):
    h, g = x[:, :32], x[:, 32:]
    return h * 0.5 * g * (1 + mx.tanh(0.79788456 * (g + 0.044715 * g**3)))


@spelled("geglu", X, Y)
def geglu_d(x, y):
    return 0.5 * x * y * (1 + mx.erf(x / math.sqrt(2)))
