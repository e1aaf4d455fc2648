"""Arrays of MLX and NumPy as the same bits in the other library."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph.dtype import Dtype

DTYPES: dict[mx.Dtype, Dtype] = {
    getattr(mx, d.value if d is not Dtype.BOOL else "bool_"): d for d in Dtype
}


def to_dtype(dtype: mx.Dtype) -> Dtype:
    """Return the dtype that MLX calls so."""
    return DTYPES[dtype]


def to_numpy(array: mx.array) -> NDArray[np.generic]:
    """Copy an MLX array into a NumPy array of the same bits."""
    if array.dtype == mx.bfloat16:
        return np.array(array.view(mx.uint16)).view(Dtype.BFLOAT16.numpy)
    return np.array(array)


def is_array(value: object) -> bool:
    """Say whether a value is an array of MLX or NumPy."""
    return isinstance(value, mx.array | np.ndarray)


def to_mlx(array: object) -> mx.array:
    """Return an MLX array of the same bits."""
    if isinstance(array, mx.array):
        return array
    assert isinstance(array, np.ndarray)
    if not array.flags.c_contiguous:
        # MLX 0.32.4 takes 400 ns an element of what is not dense, and keeps Python's lock.
        array = np.ascontiguousarray(array)
    if array.dtype == Dtype.BFLOAT16.numpy:
        return mx.array(array.view(np.uint16)).view(mx.bfloat16)
    return mx.array(array)
