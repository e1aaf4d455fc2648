"""What packed weights mean: affine levels, and MLX's formats of four- and eight-bit floats."""

import ml_dtypes
import numpy as np

from kernelwright.ir.ops.op import Array

FLOAT_MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}
"""Modes whose digits are floats, with the bits of a digit and the digits that share a scale."""


def dequantized(packed: Array, scales: Array, biases: Array, group_size: int, bits: int) -> Array:
    """Unpack affine-quantized rows of 32-bit words into float64 values."""
    levels = _digits(packed, bits)
    grouped = levels.reshape(*levels.shape[:-1], -1, group_size).astype(np.float64)
    grouped *= scales[..., None]
    grouped += biases[..., None]
    return grouped.reshape(levels.shape)


def dequantized_floats(packed: Array, scales: Array, mode: str) -> Array:
    """Unpack rows of small floats, each group with a scale of one byte, into float64 values.

    The microscaling formats scale by powers of two (E8M0), NVIDIA's by an eight-bit float (E4M3).
    """
    bits, group_size = FLOAT_MODES[mode]
    digits = _digits(packed, bits).astype(np.uint8)
    kind = ml_dtypes.float4_e2m1fn if bits == 4 else ml_dtypes.float8_e4m3fn
    exponent = ml_dtypes.float8_e4m3fn if mode == "nvfp4" else ml_dtypes.float8_e8m0fnu
    values = digits.view(kind).astype(np.float64)
    grouped = values.reshape(*values.shape[:-1], -1, group_size)
    scale = scales.astype(np.uint8).view(exponent).astype(np.float64)
    return (grouped * scale[..., None]).reshape(values.shape)


def _digits(packed: Array, bits: int) -> Array:
    if 32 % bits == 0:
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        digits = packed.astype(np.uint32)[..., None] >> shifts
        digits &= np.uint32((1 << bits) - 1)
        return digits.reshape(*packed.shape[:-1], -1)
    low_first = np.unpackbits(packed.astype("<u4").view(np.uint8), axis=-1, bitorder="little")
    across: Array = low_first.reshape(*packed.shape[:-1], -1, bits) @ (1 << np.arange(bits))
    return across
