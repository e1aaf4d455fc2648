"""What only looks like an activation."""

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


@spelled(
    (
        "silu",
        "swiglu",
    ),
    X,
    Y,
    W,
)
def silu_neg(x, y, w):
    return x * mx.sigmoid(-x)


@spelled(("silu",), X, Y, W)
def silu_two(x, y, w):
    return x / (2 + mx.exp(-x))


@spelled(("silu",), X, Y, W)
def silu_beta(x, y, w):
    return x * mx.sigmoid(1.5 * x)


@spelled(("silu",), X, Y, W)
def silu_tanh(x, y, w):
    return 0.5 * x * (1 + mx.tanh(x))


@spelled(
    (
        "silu",
        "swiglu",
    ),
    X,
    Y,
    W,
)
def silu_cross(x, y, w):
    return x * mx.sigmoid(x + y)


@spelled(
    (
        "gelu",
        "gelu_tanh",
    ),
    X,
    Y,
    W,
)
def gelu_scale(x, y, w):
    return 0.5 * x * (1 + mx.erf(x))


@spelled(("gelu",), X, Y, W)
def gelu_minus(x, y, w):
    return 0.5 * x * (1 - mx.erf(x / math.sqrt(2)))


@spelled(("gelu",), X, Y, W)
def gelu_nohalf(x, y, w):
    return x * (1 + mx.erf(x / math.sqrt(2)))


@spelled(("gelu_tanh",), X, Y, W)
def gt_cube(x, y, w):
    return 0.5 * x * (1 + mx.tanh(0.79788456 * (x + 0.054715 * x**3)))


@spelled(("gelu_tanh",), X, Y, W)
def gt_square(x, y, w):
    return 0.5 * x * (1 + mx.tanh(0.79788456 * (x + 0.044715 * x**2)))


@spelled(("gelu_fast",), X, Y, W)
def gf(x, y, w):
    return x * mx.sigmoid(1.72 * x)


@spelled(("relu",), X, Y, W)
def relu_thr(x, y, w):
    return mx.where(x > 1, x, 0)


@spelled(("relu",), X, Y, W)
def relu_other(x, y, w):
    return mx.where(y > 0, x, 0)


@spelled(("relu",), X, Y, W)
def leaky(x, y, w):
    return mx.maximum(x, 0.1 * x)


@spelled(("relu",), X, Y, W)
def relu6(x, y, w):
    return mx.minimum(x, 0)


@spelled(("relu_squared",), X, Y, W)
def r2_sq(x, y, w):
    return mx.maximum(x * x, 0)


@spelled(("relu_squared",), X, Y, W)
def r2_other(x, y, w):
    return x * y * (x > 0)


@spelled(("softplus",), X, Y, W)
def sp_neg(x, y, w):
    return mx.log(1 - mx.exp(x))


@spelled(("softplus",), X, Y, W)
def sp_two(x, y, w):
    return mx.log(2 + mx.exp(x))
