"""Reductions along every axis."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,1024]")
def sum_rows(x: mx.array) -> mx.array:
    """Sum of every row."""
    return mx.sum(x, axis=-1)


@entry("T[1024,512]")
def sum_columns(x: mx.array) -> mx.array:
    """Sum of every column."""
    return mx.sum(x, axis=0)


@entry("T[16,128,64]")
def mean_middle(x: mx.array) -> mx.array:
    """Mean along the middle axis, as pooling has it."""
    return mx.mean(x, axis=1)


@entry("T[512,1024]")
def mean_rows(x: mx.array) -> mx.array:
    """Mean of every row."""
    return mx.mean(x, axis=-1)


@entry("T[512,1024]")
def variance_rows(x: mx.array) -> mx.array:
    """Variance of every row."""
    return mx.var(x, axis=-1)


@entry("T[512,1024]")
def standard_deviation_rows(x: mx.array) -> mx.array:
    """Standard deviation of every row."""
    return mx.std(x, axis=-1)


@entry("T[512,1024]")
def maximum_rows(x: mx.array) -> mx.array:
    """Maximum of every row."""
    return mx.max(x, axis=-1)


@entry("T[512,1024]")
def argmax_rows(x: mx.array) -> mx.array:
    """Place of every row's maximum."""
    return mx.argmax(x, axis=-1)


@entry("T[512,1024]")
def sum_of_squares(x: mx.array) -> mx.array:
    """Sum of squares of every row."""
    return mx.sum(mx.square(x), axis=-1)


@entry("T[512,1024]", "T[512,1024]")
def row_dot(x: mx.array, y: mx.array) -> mx.array:
    """Inner product of rows."""
    return mx.sum(x * y, axis=-1)


@entry("T[256,256]")
def sum_all(x: mx.array) -> mx.array:
    """Sum of everything."""
    return mx.sum(x)


@entry("T[512,1024]")
def mean_and_variance(x: mx.array) -> tuple[mx.array, mx.array]:
    """Mean and variance of every row at once."""
    return mx.mean(x, axis=-1), mx.var(x, axis=-1)
