"""Arrays between NumPy and MLX, byte for byte."""

import ml_dtypes
import mlx.core as mx
import numpy as np

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array


def to_mlx(array: Array) -> mx.array:
    """Copy a NumPy array to MLX; bfloat16 travels as its 16 bits."""
    dense = np.asarray(array, order="C")
    if dense.dtype == np.dtype(ml_dtypes.bfloat16):
        return mx.array(dense.view(np.uint16)).view(mx.bfloat16)
    return mx.array(dense)


def to_numpy(array: mx.array) -> Array:
    """Copy an MLX array to NumPy; bfloat16 becomes `ml_dtypes.bfloat16`."""
    if array.dtype == mx.bfloat16:
        bits: Array = np.array(array.view(mx.uint16))
        return bits.view(Dtype.BFLOAT16.numpy)
    return np.array(array)


def mlx_dtype(dtype: Dtype) -> mx.Dtype:
    """Return MLX's own object for a dtype."""
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found
