"""Scans along the last axis and through time."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[256,1024]")
def cumulative_sum(x: mx.array) -> mx.array:
    """Running sum of every row."""
    return mx.cumsum(x, axis=-1)


@entry("T[256,1024]")
def cumulative_sum_exclusive(x: mx.array) -> mx.array:
    """Running sum of what came before."""
    return mx.cumsum(x, axis=-1, inclusive=False)


@entry("T[256,1024]")
def cumulative_maximum(x: mx.array) -> mx.array:
    """Running maximum of every row."""
    return mx.cummax(x, axis=-1)


@entry("T[64,256]")
def cumulative_product(x: mx.array) -> mx.array:
    """Running product of every row."""
    return mx.cumprod(x, axis=-1)


@entry("T[256,1024]")
def decay_weights(log_decay: mx.array) -> mx.array:
    """Exponential of the running sum of log decays, as linear attention needs it."""
    return mx.exp(mx.cumsum(-mx.logaddexp(log_decay, 0), axis=-1))


@entry("T[64,512,16]", "T[64,512]", "T[512,16]", "T[64,16]", "T[64,16]", "T[64,512]")
def state_space_step(
    state: mx.array, x: mx.array, a: mx.array, b: mx.array, c: mx.array, step: mx.array
) -> tuple[mx.array, mx.array]:
    """One step of a selective state space: the new state and its output."""
    decay = mx.exp(step[..., None] * a)
    new = state * decay + (step * x)[..., None] * b[:, None]
    return new, mx.sum(new * c[:, None], axis=-1)


@entry("T[64,512]", "T[64,512]", "T[64,512]")
def gated_recurrence_step(state: mx.array, gate: mx.array, x: mx.array) -> mx.array:
    """One step of a gated linear recurrence."""
    a = mx.sigmoid(gate)
    return a * state + mx.sqrt(1 - a * a) * x
