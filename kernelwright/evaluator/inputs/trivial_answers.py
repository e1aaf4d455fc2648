"""Trivial answers that a case must refuse, or it proves nothing."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

MEAN = "its mean"
"""What a trivial answer is called that holds the right one's mean everywhere."""
COARSE = "a reference of lower precision"
"""What the answer is called that is computed of fewer digits."""
_LOWER_BITS = {Dtype.FLOAT32: 11, Dtype.FLOAT16: 8, Dtype.BFLOAT16: 4}
"""Significant bits one step down: half for float, bfloat16 for half, fp8 e4m3 for bfloat16."""

_PART_ELEMENTS = 1 << 15


Stretch = Callable[[slice], Array]
"""Gives a part of a flattened answer."""


def trivial_answers(
    type_: TensorType, expected: Array, inputs: Sequence[Array]
) -> Iterator[tuple[str, Stretch]]:
    """Yield answers that need no work: zeros, the mean of the right answer, each like input."""
    dtype = type_.dtype.numpy
    yield "zeros", _constant(np.zeros((), dtype))
    if type_.size > 1:
        yield MEAN, _constant(_mean(expected, type_))
    for place, array in enumerate(inputs):
        if array.shape == type_.shape and array.dtype == dtype:
            yield f"input {place}", array.reshape(-1).__getitem__


def _constant(value: Array) -> Stretch:
    return lambda place: np.full(place.stop - place.start, value)


def _mean(expected: Array, type_: TensorType) -> Array:
    number = np.complex128 if type_.dtype.is_complex else np.float64
    flat = expected.reshape(-1)

    def add_up(start: int) -> tuple[complex, int]:
        part = flat[start : start + _PART_ELEMENTS].astype(number, copy=False)
        is_finite = np.isfinite(part)
        finite = part if is_finite.all() else part[is_finite]
        # Asked in every thread: NumPy keeps what it ignores for each of them.
        with np.errstate(over="ignore", invalid="ignore"):
            return finite.sum(), finite.size

    with np.errstate(over="ignore", invalid="ignore"):
        sums = in_parts(add_up, range(0, flat.size, _PART_ELEMENTS))
        count = max(sum(size for _, size in sums), 1)
        mean = np.asarray([total for total, _ in sums], number).sum() / number(count)
        if not (type_.dtype.is_float or type_.dtype.is_complex):
            mean = np.round(mean)
        return np.asarray(mean.astype(type_.dtype.numpy))


def lower_precision(array: Array) -> Array:
    """Round a float array to one format less, in its own dtype; other arrays stay as they are."""
    try:
        bits = _LOWER_BITS[Dtype(array.dtype.name)]
    except KeyError:
        return array
    return _keep_bits(array, bits, array.dtype)


def lower_precision_output(expected: Array, type_: TensorType, precision: Dtype) -> Stretch:
    """Round the oracle's answer to one format less than `precision` and give it as `type_`."""
    flat, bits, dtype = expected.reshape(-1), _LOWER_BITS[precision], type_.dtype.numpy
    return lambda place: _rounded(flat[place], bits, dtype)


def _keep_bits(array: Array, bits: int, dtype: np.dtype[np.generic]) -> Array:
    """Round to `bits` significant bits, to nearest, and then to `dtype`."""
    flat, rounded = array.reshape(-1), np.empty(array.size, dtype)

    def keep(start: int) -> None:
        part = slice(start, start + _PART_ELEMENTS)
        rounded[part] = _rounded(flat[part], bits, dtype)

    in_parts(keep, range(0, array.size, _PART_ELEMENTS))
    return rounded.reshape(array.shape)


def _rounded(values: Array, bits: int, dtype: np.dtype[np.generic]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        mantissa, exponent = np.frexp(values.astype(np.float64))
        kept = np.round(mantissa * 2.0**bits) / 2.0**bits
        coarse = np.ldexp(kept, exponent).astype(dtype)
        # The largest numbers stay: a format's range is no matter of its digits.
        is_beyond = np.isinf(coarse) & np.isfinite(mantissa)
        return np.asarray(np.where(is_beyond, values.astype(dtype), coarse))


def has_lower_precision(dtype: Dtype) -> bool:
    """Say whether a format one step below `dtype` exists to be told from it."""
    return dtype in _LOWER_BITS
