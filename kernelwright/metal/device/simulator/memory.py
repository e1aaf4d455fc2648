"""The arrays of one run: private copies of inputs, poisoned outputs between canaries."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import Array

_ALIGNMENT = 256
"""Bytes; a Metal buffer starts on a page, a vector access needs at most 16."""


@dataclass(frozen=True)
class InputCopy:
    """A private copy of an input, in the layout in which a kernel sees it."""

    original: Array
    array: Array
    """The elements in their shape."""
    storage: Array
    """The flat, contiguous memory that holds them."""

    @classmethod
    def of(cls, original: Array, *, row_contiguous: bool) -> "InputCopy":
        """Copy an input; a strided one keeps its strides unless it must be row-contiguous."""
        if row_contiguous or min(original.strides, default=0) < 0 or original.size == 0:
            storage = _aligned(original.size, original.dtype)
            storage[:] = original.reshape(-1)
            return cls(original, storage.reshape(original.shape), storage)
        items = [s // original.itemsize for s in original.strides]
        span = 1 + sum((n - 1) * s for n, s in zip(original.shape, items, strict=True))
        storage = _aligned(span, original.dtype)
        storage[:] = as_strided(original, (span,), (original.itemsize,))
        return cls(original, as_strided(storage, original.shape, original.strides), storage)

    @property
    def is_intact(self) -> bool:
        """Say whether the copy still holds the original's bytes."""
        return np.ascontiguousarray(self.array).tobytes() == self.original.tobytes()


@dataclass(frozen=True)
class GuardedArray:
    """An array between two runs of canary bytes."""

    raw: NDArray[np.uint8]
    array: Array
    padding: int
    canary: int

    @classmethod
    def of(
        cls, type_: TensorType, *, poison: int, padding: int, init_value: float | None
    ) -> "GuardedArray":
        """Allocate an output or a temporary, filled with poison or its initial value."""
        padding = -(-padding // _ALIGNMENT) * _ALIGNMENT
        raw = _aligned_bytes(type_.nbytes + 2 * padding)
        raw.fill(poison)
        inner = raw[padding : padding + type_.nbytes].view(type_.dtype.numpy)
        if init_value is not None:
            inner.fill(init_value)
        return cls(raw, inner.reshape(type_.shape), padding, poison)

    @property
    def is_intact(self) -> bool:
        """Say whether the bytes before and after the array are as they were."""
        stop = self.raw.size - self.padding
        canaries = (self.raw[: self.padding], self.raw[stop:])
        return all(bool((c == self.canary).all()) for c in canaries)


def layout(array: Array) -> tuple[Array, Array, Array]:
    """Return MLX's `_shape`, `_strides` (in elements) and `_ndim` arguments of an array."""
    strides = [s // array.itemsize for s in array.strides]
    return (
        np.array(array.shape, np.int32),
        np.array(strides, np.int64),
        np.array([array.ndim], np.int32),
    )


def _aligned(size: int, dtype: "np.dtype[np.generic]") -> Array:
    return _aligned_bytes(size * dtype.itemsize).view(dtype)


def _aligned_bytes(nbytes: int) -> NDArray[np.uint8]:
    """Allocate bytes that start at a multiple of the alignment."""
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + nbytes]
