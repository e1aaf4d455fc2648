"""Floating-point formats: spacing, rounding to nearest even, and range."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

Reals = NDArray[np.float64]
_EXPONENT = np.uint64(0x7FF0000000000000)


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format: its significant bits, its exponents, and the largest finite number."""

    significant_bits: int
    least_exponent: int
    largest: float

    @property
    def least_normal(self) -> float:
        """The smallest number that has all significant bits."""
        return 2.0**self.least_exponent

    @property
    def least(self) -> float:
        """The smallest number above zero, the distance between denormal neighbours."""
        return 2.0 ** (self.least_exponent + 1 - self.significant_bits)


FORMATS = {
    Dtype.FLOAT32: FloatFormat(24, -126, float(np.finfo(np.float32).max)),
    Dtype.FLOAT16: FloatFormat(11, -14, 65504.0),
    Dtype.BFLOAT16: FloatFormat(8, -126, float.fromhex("0x1.fep127")),
    Dtype.FLOAT64: FloatFormat(53, -1022, float(np.finfo(np.float64).max)),
}
FLOAT32 = FORMATS[Dtype.FLOAT32]
UNIT = 2.0**-24
"""Half the distance between 1 and the next float32: the relative error of one rounding."""


def half_spacing(values: Reals, dtype: Dtype) -> Reals:
    """Return half the distance between neighbours of the format at each value.

    That is the largest error of one rounding to nearest. Infinities and NaN have none.
    """
    form = FORMATS[dtype]
    wide = np.ascontiguousarray(values, np.float64)
    powers = (wide.view(np.uint64) & _EXPONENT).view(np.float64)
    half: Reals = np.maximum(powers, form.least_normal) * 2.0**-form.significant_bits
    return half.reshape(np.shape(values))


def rounded_to(values: Array, dtype: Dtype) -> Array:
    """Round to the nearest number of a format, ties to even, overflow to infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype.numpy)


def is_inexact(values: Reals, dtype: Dtype) -> NDArray[np.bool_]:
    """Mark finite values that the format does not hold."""
    form = FORMATS[dtype]
    wide = np.ascontiguousarray(values, np.float64)
    # Bits below the last significant one, of numbers that have all of them.
    lost = (wide.view(np.uint64) & np.uint64((1 << (53 - form.significant_bits)) - 1)) != 0
    size = np.abs(wide)
    is_odd = ~((size >= form.least_normal) & (size <= form.largest))
    if is_odd.any():
        odd = wide[is_odd]
        lost[is_odd] = (rounded_to(odd, dtype).astype(np.float64) != odd) & (odd == odd)
    return np.asarray(lost.reshape(np.shape(values)))


def only_where(mask: NDArray[np.bool_], values: Reals) -> Reals:
    """Return values where a mask is set, and zero elsewhere.

    A product of bits takes a tenth of the time of `numpy.where`, which mispredicts its branches.
    """
    wide = np.ascontiguousarray(values, np.float64)
    kept: Reals = (wide.view(np.uint64) * np.reshape(mask, wide.shape)).view(np.float64)
    return kept.reshape(np.shape(values))
