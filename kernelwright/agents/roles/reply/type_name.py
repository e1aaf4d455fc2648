"""Names of dtypes as people write them in Metal, C and Python."""

from collections.abc import Mapping

from kernelwright.errors import InputError
from kernelwright.ir.graph.dtype import Dtype

_SPELLED: Mapping[Dtype, tuple[str, ...]] = {
    Dtype.BOOL: ("bool",),
    Dtype.UINT8: ("uchar", "uint8_t"),
    Dtype.UINT16: ("ushort", "uint16_t"),
    Dtype.UINT32: ("uint", "uint32_t"),
    Dtype.UINT64: ("ulong", "uint64_t", "size_t"),
    Dtype.INT8: ("char", "int8_t"),
    Dtype.INT16: ("short", "int16_t"),
    Dtype.INT32: ("int", "int32_t"),
    Dtype.INT64: ("long", "int64_t"),
    Dtype.FLOAT16: ("half", "float16_t"),
    Dtype.BFLOAT16: ("bfloat", "bfloat16_t"),
    Dtype.FLOAT32: ("float",),
}
"""What Metal calls the types that it has; their own names are understood, too."""
METAL_NAMES = tuple(names[0] for names in _SPELLED.values())
_PREFIXES = ("mx.", "mlx.core.", "np.", "metal::")


def metal_name(dtype: Dtype) -> str:
    """Return what Metal calls a type that it has."""
    return _SPELLED[dtype][0]


def find_dtype(text: str) -> Dtype | None:
    """Return the dtype that a name stands for, in Metal's words or MLX's; None where it is none."""
    name = text.strip()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    for dtype in Dtype:
        if name in (dtype.value, dtype.short, *_SPELLED.get(dtype, ())):
            return dtype
    return None


def parse_dtype(text: str) -> Dtype:
    """Return the dtype that a name stands for.

    Raises:
        InputError: it stands for none.
    """
    if (dtype := find_dtype(text)) is None:
        raise InputError(f"expected a type, one of {', '.join(METAL_NAMES)}; found {text!r}.")
    return dtype
