"""Relu, its square and softplus as people write them."""

# mypy: ignore-errors
# ruff: noqa

import mlx.core as mx
import mlx.nn as nn

from tests.ir.naming.spelling import spelled

X = mx.random.normal((4, 32), key=mx.random.key(0))
Y = mx.random.normal((4, 32), key=mx.random.key(1))
H = X.astype(mx.float16)
HY = Y.astype(mx.float16)
XY = mx.random.normal((4, 64), key=mx.random.key(2))


@spelled("relu", X)
def relu_a(x):
    return mx.maximum(x, 0)


@spelled("relu", X)
def relu_b(x):
    return mx.where(x > 0, x, 0)


@spelled("relu", X)
def relu_c(x):
    return x * (x > 0)


@spelled("relu", X)
def relu_d(x):
    return (x + mx.abs(x)) / 2


@spelled("relu", X)
def relu_e(x):
    return mx.clip(x, 0, None)


@spelled("relu", X)
def relu_f(x):
    return mx.where(x < 0, mx.zeros_like(x), x)


@spelled("relu", X)
def relu_g(x):
    return mx.maximum(0.0, x)


@spelled("relu", X)
def relu_h(x):
    return x * (x > 0).astype(x.dtype)


@spelled("relu", X)
def relu_i(x):
    return mx.where(mx.logical_not(x > 0), 0.0, x)


@spelled("relu", X)
def relu_j(x):
    return 0.5 * (mx.abs(x) + x)


@spelled("relu_squared", X)
def r2_a(x):
    return mx.square(mx.maximum(x, 0))


@spelled("relu_squared", X)
def r2_b(x):
    r = nn.relu(x)
    return r * r


@spelled("relu_squared", X)
def r2_c(x):
    return mx.power(mx.where(x > 0, x, 0), 2)


@spelled("relu_squared", X)
def r2_d(x):
    return nn.relu(x) ** 2


@spelled("relu_squared", X)
def r2_e(x):
    return x * x * (x > 0)


@spelled("relu_squared", X)
def r2_f(x):
    return mx.where(x > 0, x * x, 0)


@spelled("relu_squared", X)
def r2_g(x):
    return x * mx.maximum(x, 0)


@spelled("softplus", X)
def sp_a(x):
    return mx.logaddexp(x, 0)


@spelled("softplus", X)
def sp_b(x):
    return mx.log(1 + mx.exp(x))


@spelled("softplus", X)
def sp_c(x):
    return mx.log1p(mx.exp(x))


@spelled("softplus", X)
def sp_d(x):
    return mx.maximum(x, 0) + mx.log1p(mx.exp(-mx.abs(x)))


@spelled("softplus", X)
def sp_e(x):
    return -mx.log(mx.sigmoid(-x))


@spelled("softplus", X)
def sp_f(x):
    return nn.relu(x) + mx.log(1 + mx.exp(-mx.abs(x)))


@spelled("softplus", X)
def sp_g(x):
    return mx.where(x > 20, x, mx.log1p(mx.exp(x)))


@spelled("softplus", X)
def sp_h(x):
    return x - nn.log_sigmoid(x)


@spelled("softplus", X)
def sp_i(x):
    return -nn.log_sigmoid(-x)


@spelled("softplus", X)
def sp_j(x):
    return mx.logaddexp(x, mx.zeros_like(x))
