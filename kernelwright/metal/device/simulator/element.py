"""The elements that a kernel's text names, and the numbers and arrays that may stand for them."""

import re
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.msl.signature import Parameter

Number = bool | int | float | np.generic
Argument = Array | np.generic | bytes | bool | int | float
"""What a kernel's buffer may be: an array, a scalar, or the bytes of a struct."""
SINGLE = (bool, int, float, bytes, np.generic)
"""What of it is no array."""

SCALARS: Mapping[str, np.dtype[np.generic]] = {
    name: np.dtype(type_)
    for type_, names in {
        np.bool_: ("bool",),
        np.uint8: ("uchar", "uint8_t", "unsigned char"),
        np.int8: ("char", "int8_t", "signed char"),
        np.uint16: ("ushort", "uint16_t", "unsigned short"),
        np.int16: ("short", "int16_t"),
        np.uint32: ("uint", "uint32_t", "unsigned int", "unsigned"),
        np.int32: ("int", "int32_t"),
        np.uint64: ("ulong", "uint64_t", "size_t", "unsigned long"),
        np.int64: ("long", "int64_t", "ptrdiff_t"),
        np.float16: ("half", "float16_t"),
        np.float32: ("float", "float32_t"),
        ml_dtypes.bfloat16: ("bfloat", "bfloat16_t"),
    }.items()
    for name in names
}
"""By every name that Metal gives them."""

_COMPOUND = re.compile(
    r"(?:metal::)?(?:(?:packed_)?(?P<vector>[a-z]+?)[234](?:x[234])?|atomic_(?P<atomic>[a-z]+)|"
    r"(?:vec|packed_vec|atomic|matrix|array)<(?P<argument>[\w ]+)(?:,.*)?>)"
)


def converted(value: Number, dtype: np.dtype[np.generic], *, rounds: bool) -> Array | None:
    """Return a number as an array of one element; None where the type does not hold it.

    Args:
        value: The number.
        dtype: What it becomes.
        rounds: Whether a float may lose digits, as a Python number does.
    """
    try:
        with np.errstate(all="ignore"):
            array = np.array([value]).astype(dtype)
        if dtype == np.bool_ or np.issubdtype(dtype, np.integer):
            return array if int(array[0]) == value else None
        found, wanted = float(array[0]), float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    if found == wanted or (found != found and wanted != wanted):
        return array
    return array if rounds and np.isfinite(found) else None


def in_memory(parameter: Parameter, value: Number | bytes) -> Array:
    """Return what a kernel finds in memory where a caller gives a number or bytes.

    Raises:
        LaunchError: the parameter's type is no scalar, or does not hold the number.
    """
    if isinstance(value, bytes):
        return np.frombuffer(bytearray(value), np.uint8)
    dtype = SCALARS.get(parameter.type)
    is_raw = dtype is None or isinstance(value, np.void)
    if isinstance(value, np.generic) and (is_raw or value.dtype == dtype):
        return np.array([value])
    if dtype is None:
        raise LaunchError(
            f"{parameter.name} is of type {parameter.type}; pass a NumPy scalar, an array or the "
            f"bytes of it, found {value!r}."
        )
    array = converted(value, dtype, rounds=not isinstance(value, np.generic))
    if array is None:
        raise LaunchError(
            f"{parameter.name} is of type {parameter.type}, which does not hold {value!r}; pass "
            f"{dtype.name}(…) of the value that is meant."
        )
    return array


def refuse_other_elements(parameter: Parameter, array: Array) -> None:
    """Refuse an array whose elements are not those that the text names, where it names scalars.

    Bytes and structured arrays are raw memory. So are integers of the same size for integers, and
    for half and bfloat.

    Raises:
        LaunchError: they are others.
    """
    dtype = _element(parameter)
    if dtype is None or _fits(array.dtype, dtype, parameter.type):
        return
    order = "" if array.dtype.isnative else " in the other byte order"
    raise LaunchError(
        f"{parameter.name} points to {parameter.type}, expected an array of {dtype.name} and found "
        f"{array.dtype.name}{order}; pass array.astype({dtype.name}), or array.view(np.uint8) for "
        f"the bytes as they are."
    )


def _element(parameter: Parameter) -> np.dtype[np.generic] | None:
    """Return the scalars that a parameter points to; None where the text's words do not tell."""
    if not parameter.pointee_space:
        return None
    if parameter.type in SCALARS:
        return SCALARS[parameter.type]
    found = _COMPOUND.fullmatch(parameter.type)
    name = found and (found["vector"] or found["atomic"] or found["argument"])
    return SCALARS.get(name or "")


def _fits(given: np.dtype[np.generic], wanted: np.dtype[np.generic], type_: str) -> bool:
    if given == wanted or given == np.uint8 or given.type is np.void:
        return True
    if given == np.complex64:
        return type_ == "float2"
    is_word = given.kind in "iub" and given.itemsize == wanted.itemsize and given.isnative
    return is_word and (wanted.kind in "iub" or wanted.itemsize == 2)
