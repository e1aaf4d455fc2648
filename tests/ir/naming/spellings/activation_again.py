"""Activations in further spellings, and what only looks like one."""

# mypy: ignore-errors
# ruff: noqa

import math
import mlx.core as mx
import mlx.nn as nn
from tests.ir.naming.spelling import spelled

X = mx.random.normal((4, 32), key=mx.random.key(0))
Y = mx.random.normal((4, 32), key=mx.random.key(1))


@spelled("silu", X)
def silu_where_exp(x):
    e = mx.exp(-mx.abs(x))
    return x * mx.where(x >= 0, 1 / (1 + e), e / (1 + e))


@spelled("silu", X)
def silu_one_minus(x):
    return x * (1 - mx.sigmoid(-x))


@spelled("silu", X)
def silu_recip(x):
    return x * mx.reciprocal(1 + mx.exp(-x))


@spelled("silu", X)
def silu_nn(x):
    return nn.SiLU()(x)


@spelled("silu", X)
def silu_exp_over(x):
    e = mx.exp(x)
    return x * e / (1 + e)


@spelled("silu", X)
def silu_tanh_half(x):
    return x * 0.5 + x * 0.5 * mx.tanh(x * 0.5)


@spelled("swiglu", X, Y)
def swiglu_div(x, y):
    return x * y / (1 + mx.exp(-x))


@spelled("swiglu", X, Y)
def swiglu_sig_mul(x, y):
    return mx.sigmoid(x) * y * x


@spelled("swiglu", mx.concatenate([X, Y], -1))
def swiglu_reshape(xy):
    g = xy.reshape(4, 2, 32)
    return nn.silu(g[:, 0]) * g[:, 1]


@spelled("gelu", X)
def gelu_nn(x):
    return nn.gelu(x)


@spelled("gelu", X)
def gelu_erfc(x):
    return 0.5 * x * (1 - mx.erf(-x * 0.7071067811865475))


@spelled("gelu", X)
def gelu_mulhalf(x):
    return (x + x * mx.erf(x / 1.4142135623730951)) * 0.5


@spelled("gelu_tanh", X)
def gt_nn(x):
    return nn.gelu_approx(x)


@spelled("gelu_tanh", X)
def gt_cube2(x):
    return x * 0.5 * (1.0 + mx.tanh(0.7978845608028654 * x + 0.035677408136300125 * x * x * x))


@spelled("gelu_tanh", X)
def gt_sig(x):
    return x / (1 + mx.exp(-2 * 0.7978845608 * (x + 0.044715 * mx.power(x, 3))))


@spelled("gelu_tanh", X)
def gt_half_later(x):
    return x * (1 + mx.tanh(0.79788456 * (x + 0.044715 * (x * x) * x))) / 2


@spelled("gelu_fast", X)
def gf_nn(x):
    return nn.gelu_fast_approx(x)


@spelled("geglu", X, Y)
def geglu_m(x, y):
    return nn.gelu(x) * y


@spelled("relu", X)
def relu_max_zeros(x):
    return mx.maximum(mx.zeros_like(x), x)


@spelled("relu", X)
def relu_minus_min(x):
    return x - mx.minimum(x, 0)


@spelled("relu", X)
def relu_heaviside(x):
    return mx.where(x >= 0, x, mx.array(0.0))


@spelled("relu", X)
def relu_neg_min(x):
    return -mx.minimum(-x, 0)


@spelled("relu", X)
def relu_mul_mask(x):
    return (x > 0) * x


@spelled("relu_squared", X)
def r2_mask(x):
    return mx.where(x > 0, mx.square(x), 0.0)


@spelled("relu_squared", X)
def r2_pow(x):
    return mx.power(nn.relu(x), 2.0)


@spelled("softplus", X)
def sp_nn(x):
    return nn.softplus(x)


@spelled("softplus", X)
def sp_max_log(x):
    return mx.maximum(x, 0) + mx.log(1.0 + mx.exp(-mx.abs(x)))


@spelled("softplus", X)
def sp_where_thr(x):
    return mx.where(x > 20.0, x, mx.log(1 + mx.exp(mx.minimum(x, 20.0))))


@spelled("softplus", X)
def sp_negsig(x):
    return -mx.log(1 - mx.sigmoid(x))


@spelled("softplus", X)
def sp_x_plus(x):
    return x + mx.log1p(mx.exp(-x))


@spelled(("silu",), X)
def n_silu_plus(x):
    return x + mx.sigmoid(x)


@spelled(("silu",), X)
def n_silu_shift(x):
    return x * mx.sigmoid(x + 1)


@spelled(("gelu", "gelu_tanh"), X)
def n_gelu_tanh_only(x):
    return 0.5 * x * (1 + mx.tanh(x))


@spelled(("gelu_fast",), X)
def n_gf(x):
    return x * mx.sigmoid(1.7 * x)


@spelled(("relu",), X)
def n_relu_neg(x):
    return mx.minimum(0, x)


@spelled(("relu_squared",), X)
def n_r2(x):
    return mx.maximum(x, 0) * mx.maximum(-x, 0)


@spelled(("softplus",), X)
def n_sp(x):
    return mx.log(1 + mx.exp(x) + mx.exp(-x))


@spelled(("softplus",), X)
def n_sp2(x):
    return mx.logaddexp(x, 1)
