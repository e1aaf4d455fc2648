"""Notices that an array was changed in place; the text of this file is part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import ctypes

import mlx.core as mx

# Py_buffer is ten words long on machines of 64 bits; its first one is the address.
_Buffer = ctypes.c_void_p * 16


class _Value:
    """The value of an array: the same for as long as nothing is written to the array.

    MLX never writes into memory that another array has: a change in place (`mask[0] = 1`) gives
    the array new memory, as long as something else keeps the old one.
    """

    def __init__(self, array: mx.array) -> None:
        self.array = array
        self._kept = array.astype(array.dtype)
        self._address = None

    def is_that_of(self, array: object) -> bool:
        """Say whether this is the array, and still has the value."""
        if array is not self.array:
            return False
        try:
            if self._address is None:
                self._address = _address_of(self._kept)
            return _address_of(array) == self._address
        except (RuntimeError, ValueError, BufferError):
            # In a trace of MLX's the array may have no value yet.
            return False

    def holds(self) -> bool:
        """Say whether the array still has the value."""
        return self.is_that_of(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and self.holds() and other.is_that_of(self.array)


def _address_of(array: mx.array) -> int:
    """Return where the first element of an array is in memory; it is evaluated for that."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), view, 0)
    address = view[0]
    ctypes.pythonapi.PyBuffer_Release(view)
    return address
