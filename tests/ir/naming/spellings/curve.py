"""Bent, clipped and piecewise curves, and what only looks like one."""

# mypy: ignore-errors
# ruff: noqa

import math

import mlx.core as mx
import mlx.nn as nn

from tests.ir.naming.spelling import spelled

X = 3 * mx.random.normal((4, 32), key=mx.random.key(0))
Y = 3 * mx.random.normal((4, 32), key=mx.random.key(1))
ALPHA, GAIN = 1.6732632423543772, 1.0507009873554805
BENT = ("elu", "selu", "celu")
STRAIGHT = ("huber", "smooth_l1")


@spelled("elu", X)
def elu_nn(x):
    return nn.elu(x, 0.7)


@spelled("elu", X)
def elu_expm1(x):
    return mx.where(x > 0, x, mx.expm1(x))


@spelled("elu", X)
def elu_below(x):
    return mx.where(x < 0, 0.5 * (mx.exp(mx.minimum(x, 0)) - 1), x)


@spelled("elu", X)
def elu_sum(x):
    return mx.maximum(x, 0) + 1.5 * mx.expm1(mx.minimum(x, 0.0))


@spelled("elu", X)
def elu_least(x):
    return nn.relu(x) + mx.minimum(2.0 * (mx.exp(x) - 1.0), 0.0)


@spelled("elu", X)
def elu_safe(x):
    return mx.where(x >= 0, x, mx.expm1(mx.where(x < 0, x, 0.0)))


@spelled("selu", X)
def selu_nn(x):
    return nn.selu(x)


@spelled("selu", X)
def selu_inside(x):
    return mx.where(x > 0, GAIN * x, GAIN * ALPHA * mx.expm1(x))


@spelled("selu", X)
def selu_sum(x):
    return GAIN * (mx.maximum(x, 0) + ALPHA * (mx.exp(mx.minimum(x, 0)) - 1))


@spelled("selu", X.astype(mx.float16))
def selu_half(x):
    return 1.0507 * mx.where(x > 0, x, 1.67326 * (mx.exp(x) - 1))


@spelled("celu", X)
def celu_nn(x):
    return nn.celu(x, 2.0)


@spelled("celu", X)
def celu_torch(x):
    return mx.maximum(0, x) + mx.minimum(0, 0.5 * (mx.exp(x / 0.5) - 1))


@spelled("celu", X)
def celu_chosen(x):
    return mx.where(x > 0, x, 3.0 * mx.expm1(x / 3.0))


@spelled("mish", X)
def mish_nn(x):
    return nn.mish(x)


@spelled("mish", X)
def mish_log1p(x):
    return mx.tanh(mx.log1p(mx.exp(x))) * x


@spelled("softplus", X)
def softplus_nn(x):
    return nn.softplus(x)


@spelled("softsign", X)
def softsign_nn(x):
    return nn.softsign(x)


@spelled("softsign", X)
def softsign_chosen(x):
    return x / (mx.maximum(x, -x) + 1)


@spelled("hard_swish", X)
def hard_swish_nn(x):
    return nn.hardswish(x)


@spelled("hard_swish", X)
def hard_swish_relu6(x):
    return x * (nn.relu6(x + 3) * (1 / 6))


@spelled("hard_swish", X)
def hard_swish_clip(x):
    return x * mx.clip(x / 6 + 0.5, 0, 1)


@spelled("hard_swish", X)
def hard_swish_below(x):
    return (x / 6) * mx.clip(3 + x, 0.0, 6.0)


@spelled("hard_tanh", X)
def hard_tanh_nn(x):
    return nn.hard_tanh(x)


@spelled("hard_tanh", X)
def hard_tanh_other(x):
    return mx.maximum(-1.0, mx.minimum(1.0, x))


@spelled("log_cosh", X, Y)
def log_cosh_nn(x, y):
    return nn.losses.log_cosh_loss(x, y)


@spelled("log_cosh", X)
def log_cosh_plain(x):
    return mx.log(mx.cosh(x / 4))


@spelled("log_cosh", X)
def log_cosh_alone(x):
    return mx.logaddexp(-x, x) - math.log(2)


@spelled("huber", X, Y)
def huber_nn(x, y):
    return nn.losses.huber_loss(x, y, delta=1.5)


@spelled("huber", X, Y)
def huber_chosen(x, y):
    d = x - y
    return mx.where(mx.abs(d) <= 2.0, 0.5 * d * d, 2.0 * (mx.abs(d) - 1.0))


@spelled("huber", X, Y)
def huber_flipped(x, y):
    d = mx.abs(x - y)
    return mx.where(d > 0.5, 0.5 * (d - 0.25), mx.square(d) / 2)


@spelled("smooth_l1", X, Y)
def smooth_l1_nn(x, y):
    return nn.losses.smooth_l1_loss(x, y, beta=0.5, reduction="none")


@spelled("smooth_l1", X, Y)
def smooth_l1_one(x, y):
    d = mx.abs(x - y)
    return mx.where(d < 1, 0.5 * d * d, d - 0.5)


@spelled("smooth_l1", X, Y)
def smooth_l1_mean(x, y):
    return nn.losses.smooth_l1_loss(x, y, beta=2.0)


@spelled("glu", X)
def glu_nn(x):
    return nn.glu(x)


@spelled("glu", X)
def glu_rows(x):
    return nn.glu(x, axis=0)


@spelled("glu", X)
def glu_division(x):
    return x[:, :16] / (1 + mx.exp(-x[:, 16:]))


@spelled(BENT, X)
def bent_plus(x):
    return mx.where(x > 0, x, mx.exp(x) + 1)


@spelled(BENT, X)
def bent_two(x):
    return mx.where(x > 0, x, mx.exp(x) - 2)


@spelled(BENT, X, Y)
def bent_by_another(x, y):
    return mx.where(y > 0, x, mx.expm1(x))


@spelled(BENT, X, Y)
def bent_of_another(x, y):
    return mx.where(x > 0, x, mx.expm1(y))


@spelled(BENT, X, Y)
def bent_by_rows(x, y):
    return mx.where(x > 0, x, y * mx.expm1(x))


@spelled(BENT, X)
def bent_flipped(x):
    return mx.where(x > 0, mx.expm1(x), x)


@spelled(BENT, X)
def bent_downwards(x):
    return mx.where(x > 0, x, -0.5 * mx.expm1(x))


@spelled(BENT, X)
def bent_unheld(x):
    return mx.maximum(x, 0) + mx.expm1(x)


@spelled(("celu", "elu"), X)
def celu_two_numbers(x):
    return mx.maximum(x, 0) + 2.0 * mx.expm1(mx.minimum(x, 0) / 3.0)


@spelled(("selu",), X)
def selu_other_gain(x):
    return 1.06 * nn.elu(x, ALPHA)


@spelled(("selu",), X)
def selu_other_alpha(x):
    return GAIN * nn.elu(x, 1.7)


@spelled(("mish",), X)
def mish_sigmoid(x):
    return x * mx.sigmoid(nn.softplus(x))


@spelled(("mish",), X, Y)
def mish_of_another(x, y):
    return x * mx.tanh(nn.softplus(y))


@spelled(("softsign",), X)
def softsign_two(x):
    return x / (2 + mx.abs(x))


@spelled(("softsign",), X)
def softsign_bare(x):
    return x / (1 + x)


@spelled(("hard_swish",), X)
def hard_swish_three(x):
    return x * mx.clip(x + 3, 0, 6) / 3


@spelled(("hard_swish",), X)
def hard_swish_two(x):
    return x * mx.clip(x + 2, 0, 6) / 6


@spelled(("hard_swish",), X, Y)
def hard_swish_of_another(x, y):
    return x * mx.clip(y + 3, 0, 6) / 6


@spelled(("hard_tanh",), X)
def clipped_elsewhere(x):
    return mx.clip(x, -1, 2)


@spelled(("hard_tanh",), X)
def clipped_to_nothing(x):
    return mx.maximum(mx.maximum(x, -1), 1)


@spelled(("log_cosh",), X)
def log_cosh_less_one(x):
    return mx.logaddexp(x, -x) - 1


@spelled(("log_cosh",), X, Y)
def log_cosh_of_two(x, y):
    return mx.logaddexp(x, -y) - math.log(2)


@spelled(("log_cosh",), X)
def log_sinh(x):
    return mx.log(mx.sinh(mx.abs(x) + 1))


@spelled(STRAIGHT, X, Y)
def straight_steeper(x, y):
    d = mx.abs(x - y)
    return mx.where(d < 2, 0.5 * d * d, 3.0 * (d - 1.0))


@spelled(STRAIGHT, X, Y)
def straight_with_a_jump(x, y):
    d = mx.abs(x - y)
    return mx.where(d < 2, 0.5 * d * d, 2.0 * (d - 0.5))


@spelled(STRAIGHT, X, Y)
def straight_first(x, y):
    d = mx.abs(x - y)
    return mx.where(d > 1, 0.5 * d * d, d - 0.5)


@spelled(STRAIGHT, X, Y)
def straight_by_sign(x, y):
    d = x - y
    return mx.where(d < 1, 0.5 * d * d, d - 0.5)


@spelled(STRAIGHT, X, Y)
def straight_twice_as_high(x, y):
    d = mx.abs(x - y)
    return mx.where(d < 1, d * d, d - 0.5)


@spelled(("glu",), X)
def gated_by_itself(x):
    return x[:, :16] * mx.sigmoid(2 * x[:, :16])


@spelled(("glu",), X, Y)
def gated_by_another(x, y):
    return x[:, :16] * mx.sigmoid(y[:, :16])


@spelled(("glu",), X)
def gated_by_a_quarter(x):
    return x[:, :8] * mx.sigmoid(x[:, 8:16])


@spelled(("glu",), X)
def gated_by_tanh(x):
    return x[:, :16] * mx.tanh(x[:, 16:])


@spelled(("glu",), X)
def gated_by_an_overlap(x):
    return x[:, :16] * mx.sigmoid(x[:, 8:24])
