"""Losses and statistics in many hands: factories, lambdas, star arguments, gradients inside."""

# mypy: ignore-errors

import functools
import operator
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn

import kernelwright as kw

IGNORE = -100
TEMPERATURES = [1.0, 0.5]
CLASS_WEIGHTS = mx.random.uniform(0.5, 1.5, (24,), key=mx.random.key(3))


def in_float32(fn):
    """Compute in float32 and return the dtype of the first argument."""

    @functools.wraps(fn)
    def wrapper(x, *args, **kwargs):
        return fn(x.astype(mx.float32), *args, **kwargs).astype(x.dtype)

    return wrapper


@in_float32
def log_softmax(x, axis=-1):
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


def smoothed_cross_entropy(logits, targets, /, smoothing=0.1, ignore_index=IGNORE):
    keep = targets != ignore_index
    safe = mx.where(keep, targets, 0)
    logp = log_softmax(logits)
    nll = -mx.take_along_axis(logp, safe[:, None], axis=1)[:, 0]
    smooth = -logp.mean(axis=1)
    loss = ((1 - smoothing) * nll + smoothing * smooth) * CLASS_WEIGHTS[safe]
    return mx.where(keep, loss, 0).sum() / mx.maximum(keep.sum(), 1)


def info_nce(a, b, log_temperature):
    a = a / mx.linalg.norm(a, axis=-1, keepdims=True)
    b = b / mx.linalg.norm(b, axis=-1, keepdims=True)
    logits = mx.exp(log_temperature) * a @ b.T
    labels = mx.arange(a.shape[0])
    return 0.5 * sum(
        nn.losses.cross_entropy(side, labels, reduction="mean") for side in (logits, logits.T)
    )


def make_distillation(temperature, weight=0.5):
    def distill(student, teacher, labels):
        soft = mx.softmax(teacher / temperature, axis=-1)
        logp = log_softmax(student / temperature)
        kl = (soft * (mx.log(soft + 1e-9) - logp)).sum(-1).mean() * temperature**2
        hard = nn.losses.cross_entropy(student, labels, reduction="mean")
        return weight * kl + (1 - weight) * hard

    return distill


distill = make_distillation(4.0)
triplet = lambda a, p, n, margin=0.2: mx.maximum(  # noqa: E731
    mx.sum((a - p) ** 2, -1) - mx.sum((a - n) ** 2, -1) + margin, 0
).mean()


def vicreg(*views, gamma=1.0, **coefficients):
    sim = coefficients.get("sim", 25.0)
    loss = sum(mx.mean((x - y) ** 2) for x, y in pairwise(views)) * sim
    for x in views:
        x = x - x.mean(axis=0)
        std = mx.sqrt(x.var(axis=0) + 1e-4)
        loss += mx.mean(nn.relu(gamma - std)) * 25.0
        cov = (x.T @ x) / (len(x) - 1)
        off = mx.where(mx.eye(cov.shape[0], dtype=mx.bool_), 0, cov)
        loss += (off**2).sum() / x.shape[-1]
    return loss


def logistic_gradient(w, x, y):
    """A gradient is part of the function."""

    def loss(w):
        z = x @ w
        return mx.mean(mx.logaddexp(0.0, z) - y * z) + 1e-3 * (w * w).sum()

    value, grad = mx.value_and_grad(loss)(w)
    return {"loss": value, "step": w - 0.1 * grad}


def per_example_norms(w, x):
    one = lambda row: mx.sqrt(mx.square(mx.tanh(row @ w)).sum() + 1e-6)  # noqa: E731
    return mx.vmap(one)(x)


@kw.example("f32[10,24]", n=3)
@kw.example("f32[10,24]", n=1)
def moments(x, n):
    centred = x - x.mean(axis=-1, keepdims=True)
    return [functools.reduce(operator.mul, [centred] * (k + 1)).mean(-1) for k in range(n)]


def mixture(x, logits):
    parts = [mx.softmax(x / t, axis=-1) for t in TEMPERATURES]
    weights = mx.softmax(logits, axis=-1)
    return sum(w * p for w, p in zip(mx.split(weights, len(parts), axis=-1), parts))


def example_inputs():
    rows = mx.zeros((10, 24))
    labels = mx.zeros((10,), mx.int32)
    return {
        "smoothed_cross_entropy": (rows, labels),
        "info_nce": (mx.zeros((8, 16)), mx.zeros((8, 16)), mx.zeros(())),
        "distill": (rows, rows, labels),
        "triplet": (rows, rows, rows),
        "vicreg": (rows, rows),
        "logistic_gradient": (mx.zeros((24,)), rows, mx.zeros((10,))),
        "per_example_norms": (mx.zeros((24, 6)), rows),
        "mixture": (rows, mx.zeros((10, 2))),
    }
