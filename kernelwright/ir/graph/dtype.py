"""The element types of MLX arrays, with the names by which people and NumPy call them."""

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from kernelwright.errors import InputError

if TYPE_CHECKING:
    # What only names types, as a store does, needs no arrays.
    import numpy as np


class Dtype(StrEnum):
    """An element type; its value is MLX's own name for it."""

    BOOL = "bool"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"

    @classmethod
    def parse(cls, text: str) -> "Dtype":
        """Read a full or a short name (`float16`, `f16`, `bf16`, `i32`, `u8`).

        Raises:
            InputError: `text` names no dtype.
        """
        name = text.strip().lower()
        for dtype in cls:
            if name in (dtype.value, dtype.short):
                return dtype
        known = ", ".join(dtype.short for dtype in cls)
        raise InputError(f"expected a dtype, one of {known}; found {text!r}.")

    @property
    def short(self) -> str:
        """The short name used in tables and on the command line, such as `bf16`."""
        return _SHORT[self]

    @property
    def numpy(self) -> "np.dtype":
        """The NumPy dtype with the same bytes; bfloat16 comes from `ml_dtypes`."""
        return _numpy_of(self)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _ITEMSIZE[self]

    @property
    def is_float(self) -> bool:
        """True for real floating-point types."""
        return self in _EPSILON

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.value.startswith(("int", "uint"))

    @property
    def is_complex(self) -> bool:
        """True for complex numbers."""
        return self is Dtype.COMPLEX64

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger value, 0 for exact types."""
        return _EPSILON.get(self, 0.0)


@cache
def _numpy_of(dtype: Dtype) -> "np.dtype":
    import ml_dtypes
    import numpy as np

    return np.dtype(ml_dtypes.bfloat16 if dtype is Dtype.BFLOAT16 else dtype.value)


_SHORT = {
    Dtype.BOOL: "bool",
    Dtype.UINT8: "u8",
    Dtype.UINT16: "u16",
    Dtype.UINT32: "u32",
    Dtype.UINT64: "u64",
    Dtype.INT8: "i8",
    Dtype.INT16: "i16",
    Dtype.INT32: "i32",
    Dtype.INT64: "i64",
    Dtype.FLOAT16: "f16",
    Dtype.BFLOAT16: "bf16",
    Dtype.FLOAT32: "f32",
    Dtype.FLOAT64: "f64",
    Dtype.COMPLEX64: "c64",
}
_ITEMSIZE = {
    Dtype.BOOL: 1,
    Dtype.UINT8: 1,
    Dtype.UINT16: 2,
    Dtype.UINT32: 4,
    Dtype.UINT64: 8,
    Dtype.INT8: 1,
    Dtype.INT16: 2,
    Dtype.INT32: 4,
    Dtype.INT64: 8,
    Dtype.FLOAT16: 2,
    Dtype.BFLOAT16: 2,
    Dtype.FLOAT32: 4,
    Dtype.FLOAT64: 8,
    Dtype.COMPLEX64: 8,
}
_EPSILON = {
    Dtype.FLOAT16: 2.0**-10,
    Dtype.BFLOAT16: 2.0**-7,
    Dtype.FLOAT32: 2.0**-23,
    Dtype.FLOAT64: 2.0**-52,
}
