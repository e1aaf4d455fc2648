"""Trivial answers that a case must refuse, or it proves nothing."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import Array

MEAN = "its mean"
"""What a trivial answer is called that holds the right one's mean everywhere."""
_LOWER_BITS = {Dtype.FLOAT32: 11, Dtype.FLOAT16: 8, Dtype.BFLOAT16: 4}
"""Significant bits one step down: half for float, bfloat16 for half, fp8 e4m3 for bfloat16."""


def trivial_answers(
    type_: TensorType, expected: Array, inputs: Sequence[Array]
) -> Iterator[tuple[str, Array]]:
    """Yield answers that need no work: zeros, the mean of the right answer, each like input."""
    dtype = type_.dtype.numpy
    yield "zeros", np.zeros(type_.shape, dtype)
    if type_.size > 1:
        yield MEAN, _mean(expected, type_)
    for place, array in enumerate(inputs):
        if array.shape == type_.shape and array.dtype == dtype:
            yield f"input {place}", array


def _mean(expected: Array, type_: TensorType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        wide = expected.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        mean = float(finite.mean()) if finite.size else 0.0
        if not type_.dtype.is_float:
            mean = float(round(mean))
        return np.full(type_.shape, mean).astype(type_.dtype.numpy)


def lower_precision(array: Array) -> Array:
    """Round a float array to one format less, in its own dtype; other arrays stay as they are."""
    try:
        bits = _LOWER_BITS[Dtype(array.dtype.name)]
    except KeyError:
        return array
    return keep_bits(array.astype(np.float64), bits).astype(array.dtype)


def lower_precision_output(expected: Array, type_: TensorType, precision: Dtype) -> Array:
    """Round the oracle's answer to one format less than `precision` and return it as `type_`."""
    bits = _LOWER_BITS[precision]
    with np.errstate(over="ignore", invalid="ignore"):
        return keep_bits(expected.astype(np.float64), bits).astype(type_.dtype.numpy)


def keep_bits(values: Array, bits: int) -> Array:
    """Round to `bits` significant bits, to nearest."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)


def has_lower_precision(dtype: Dtype) -> bool:
    """Say whether a format one step below `dtype` exists to be told from it."""
    return dtype in _LOWER_BITS
