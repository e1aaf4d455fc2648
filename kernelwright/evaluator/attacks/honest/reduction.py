"""Reductions and scans that hand-written kernels compute."""

import mlx.core as mx


def log_softmax(x: mx.array) -> mx.array:
    """Logarithm of the softmax of rows."""
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def logsumexp(x: mx.array) -> mx.array:
    """Logarithm of the sum of exponentials of each row."""
    return mx.logsumexp(x, axis=-1)


def argmin(x: mx.array) -> mx.array:
    """Place of the first minimum of each row."""
    return mx.argmin(x, axis=-1)


def row_max(x: mx.array) -> mx.array:
    """Maximum of each row."""
    return mx.max(x, axis=-1)


def any_above(x: mx.array, limit: mx.array) -> mx.array:
    """Whether any element of a row exceeds the row's limit."""
    return mx.any(x > limit[:, None], axis=-1)


def all_finite(x: mx.array) -> mx.array:
    """Whether all elements of a row are finite."""
    return mx.all(mx.isfinite(x), axis=-1)


def column_sum(x: mx.array) -> mx.array:
    """Sum of each column."""
    return mx.sum(x, axis=0)


def sum_squares(x: mx.array) -> mx.array:
    """Sum of all squares, in float32."""
    return mx.sum(mx.square(x.astype(mx.float32)))


def running_max(x: mx.array) -> mx.array:
    """Largest element of each row up to each place."""
    return mx.cummax(x, axis=-1)


def running_product(x: mx.array) -> mx.array:
    """Products of each row up to every column."""
    return mx.cumprod(x, axis=-1)


def segment_sum(x: mx.array, segment: mx.array) -> mx.array:
    """Add rows up by their segment, of which there are twelve."""
    return mx.zeros((12, x.shape[1]), x.dtype).at[segment].add(x)


def laplace(x: mx.array, up: mx.array, down: mx.array, left: mx.array, right: mx.array) -> mx.array:
    """Four times each element less its neighbours."""
    return 4 * x - ((up + down) + (left + right))


def biased_sum(x: mx.array, bias: mx.array) -> mx.array:
    """Sum of each row beside a number of its own."""
    return mx.sum(x, axis=-1, keepdims=True) + bias
