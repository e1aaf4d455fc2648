"""Optimizer steps."""

import mlx.core as mx

from kernelwright.catalog.entry import entry

Pair = tuple[mx.array, mx.array]


@entry("T[512,1024]", "T[512,1024]", "T[512,1024]")
def sgd_momentum_step(weight: mx.array, gradient: mx.array, velocity: mx.array) -> Pair:
    """Stochastic gradient descent with momentum and weight decay."""
    v = 0.9 * velocity + gradient + 1e-2 * weight
    return weight - 1e-3 * v, v


@entry("T[512,1024]", "T[512,1024]", "f32[512,1024]", "f32[512,1024]")
def adamw_step(
    weight: mx.array, gradient: mx.array, mean: mx.array, square: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """AdamW at its thousandth step."""
    g = gradient.astype(mx.float32)
    m = 0.9 * mean + 0.1 * g
    v = 0.999 * square + 0.001 * g * g
    update = m / (1 - 0.9**1000) / (mx.sqrt(v / (1 - 0.999**1000)) + 1e-8)
    new = weight.astype(mx.float32) * (1 - 1e-5) - 1e-3 * update
    return new.astype(weight.dtype), m, v


@entry("T[512,1024]", "T[512,1024]", "T[512,1024]")
def lion_step(weight: mx.array, gradient: mx.array, mean: mx.array) -> Pair:
    """Lion."""
    update = mx.sign(0.9 * mean + 0.1 * gradient)
    return weight - 1e-4 * (update + 0.1 * weight), 0.99 * mean + 0.01 * gradient


@entry("T[512,1024]", "T[512,1024]")
def rms_prop_step(gradient: mx.array, square: mx.array) -> Pair:
    """RMSprop's update and its running square."""
    v = 0.99 * square + 0.01 * gradient * gradient
    return gradient / (mx.sqrt(v) + 1e-6), v


@entry("T[512,1024]", "T[512,1024]")
def ema_update(average: mx.array, weight: mx.array) -> mx.array:
    """Exponential moving average of weights."""
    return average * 0.999 + weight * 0.001
