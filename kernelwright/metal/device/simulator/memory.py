"""The arrays of one run: private copies of inputs and poisoned outputs, each between canaries."""

import ctypes
import mmap
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import BUFFER_ALIGNMENT
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import bulk
from kernelwright.metal.device.simulator.build import load_runtime

_LEAST_FENCED = 1 << 20
"""Bytes; smaller results are copied."""


@dataclass(frozen=True)
class FencedMemory:
    """Bytes between two runs of canaries, alone in a wide range of addresses.

    A kernel that strays a little changes a canary; one that strays far ends, and in either case
    finds no memory but its own.
    """

    raw: NDArray[np.uint8]
    start: int
    """Where the bytes begin, after the first canaries."""
    stop: int
    canary: int

    @classmethod
    def of(
        cls,
        nbytes: int,
        *,
        canary: int,
        padding: int,
        before: int | None = None,
        placement: int = 0,
    ) -> "FencedMemory":
        """Make memory for `nbytes` of zeros, with `padding` behind, and before if not `before`.

        A number that is drawn for `placement` decides where it lies, and so which of two arrays
        comes first.

        Raises:
            MemoryError: there is none left.
        """
        padding = -(-padding // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
        # To the end of the last page, which is the smallest unit that can be fenced.
        start = padding if before is None else before
        size = -(-(start + nbytes + padding) // mmap.PAGESIZE) * mmap.PAGESIZE
        raw = _fenced(size, placement)
        raw[:start] = raw[start + nbytes :] = canary
        return cls(raw, start, start + nbytes, canary)

    @property
    def data(self) -> NDArray[np.uint8]:
        """Return the bytes between the canaries."""
        return self.raw[self.start : self.stop]

    @property
    def is_intact(self) -> bool:
        """Say whether the canaries are as they were."""
        canaries = (self.raw[: self.start], self.raw[self.stop :])
        return all(bool((c == self.canary).all()) for c in canaries)


@dataclass(frozen=True)
class InputCopy:
    """A private copy of an input, in the layout in which a kernel sees it."""

    original: Array
    array: Array
    """The elements in their shape."""
    storage: Array
    """The flat, contiguous memory that holds them."""
    memory: FencedMemory

    @classmethod
    def of(
        cls,
        original: Array,
        *,
        row_contiguous: bool,
        poison: int,
        padding: int,
        before: int | None = None,
        placement: int = 0,
    ) -> "InputCopy":
        """Copy an input; a strided one keeps its strides unless it must be row-contiguous."""
        is_dense = row_contiguous or min(original.strides, default=0) < 0 or original.size == 0
        items = [s // original.itemsize for s in original.strides]
        reach = 1 + sum((n - 1) * s for n, s in zip(original.shape, items, strict=True))
        span = original.size if is_dense else reach
        nbytes = span * original.itemsize
        memory = FencedMemory.of(
            nbytes, canary=poison, padding=padding, before=before, placement=placement
        )
        storage = memory.data.view(original.dtype)
        if is_dense:
            if original.flags.c_contiguous:
                bulk.copy(storage, original.reshape(-1))
            else:
                storage.reshape(original.shape)[...] = original
            return cls(original, storage.reshape(original.shape), storage, memory)
        bulk.copy(storage, as_strided(original, (span,), (original.itemsize,)))
        return cls(original, as_strided(storage, original.shape, original.strides), storage, memory)

    @property
    def is_intact(self) -> bool:
        """Say whether the copy still holds the original's bytes, and its canaries theirs."""
        return _holds_same_bytes(self.array, self.original) and self.memory.is_intact


@dataclass(frozen=True)
class GuardedArray:
    """An output or a temporary."""

    array: Array
    memory: FencedMemory

    @classmethod
    def of(
        cls,
        type_: TensorType,
        *,
        poison: int,
        padding: int,
        init_value: float | None,
        before: int | None = None,
        placement: int = 0,
    ) -> "GuardedArray":
        """Make an array filled with poison, or with its initial value."""
        memory = FencedMemory.of(
            type_.nbytes, canary=poison, padding=padding, before=before, placement=placement
        )
        made = cls(memory.data.view(type_.dtype.numpy).reshape(type_.shape), memory)
        made.refill(poison, init_value)
        return made

    def refill(self, poison: int, init_value: float | None) -> None:
        """Fill the array as before its first launch; the canaries stay what they are."""
        if init_value is None:
            bulk.fill(self.memory.data, poison)
        else:
            self.array.fill(init_value)

    @property
    def result(self) -> Array:
        """Return the array; small ones leave the fence, of which a process can hold some 4000."""
        return self.array.copy() if self.array.nbytes < _LEAST_FENCED else self.array

    @property
    def is_intact(self) -> bool:
        """Say whether the bytes before and after the array are as they were."""
        return self.memory.is_intact


def _holds_same_bytes(copy: Array, original: Array) -> bool:
    one, other = np.ascontiguousarray(copy), np.ascontiguousarray(original)
    return bulk.are_same(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def layout(array: Array) -> tuple[Array, Array, Array]:
    """Return MLX's `_shape`, `_strides` (in elements) and `_ndim` arguments of an array."""
    strides = [s // array.itemsize for s in array.strides]
    return (
        np.array(array.shape, np.int32),
        np.array(strides, np.int64),
        np.array([array.ndim], np.int32),
    )


def _fenced(size: int, placement: int) -> NDArray[np.uint8]:
    """Return memory of whole pages, given back when the last view of it goes."""
    runtime, fence = load_runtime(), _Fence()
    runtime.kw_fence.restype = ctypes.c_void_p
    address = runtime.kw_fence(
        ctypes.c_uint64(size), ctypes.c_uint64(placement), ctypes.byref(fence)
    )
    if address is None:
        raise MemoryError(f"the simulator has no memory left for an array of {size} bytes.")
    owner = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(owner, runtime.kw_unfence, fence).atexit = False
    return np.ctypeslib.as_array(owner)


class _Fence(ctypes.Structure):
    """`Fence` of fence.cpp."""

    _fields_ = (("base", ctypes.c_void_p), ("span", ctypes.c_uint64))
