"""The names of Metal's scalar and vector types."""

import re

_SCALAR = (
    r"bool|char|uchar|short|ushort|int|uint|long|ulong|half|float|bfloat|size_t|ptrdiff_t|"
    r"u?int(?:8|16|32|64)_t|float16_t|bfloat16_t|complex64_t|unsigned|signed|void"
)
_VECTOR = r"(?:packed_)?(?:bool|u?char|u?short|u?int|u?long|half|float|bfloat)[234]"
_MATRIX = r"(?:half|float|bfloat)[234]x[234]"
_BUILTIN = re.compile(rf"(?:{_SCALAR}|{_VECTOR}|{_MATRIX}|atomic_(?:int|uint|bool|float|ulong))\Z")
_INTEGERS = re.compile(r"(?:metal::)?(ushort|uint|unsigned|uint16_t|uint32_t)([23]?)\Z")
_VEC = re.compile(r"(?:metal::)?vec<(ushort|uint|uint16_t|uint32_t),([23])>\Z")
_ALIASES = {
    "uint": "unsigned int",
    "ushort": "unsigned short",
    "uchar": "unsigned char",
    "ulong": "unsigned long",
}


def is_builtin_type(word: str) -> bool:
    """Say whether a word names a type of Metal's own."""
    return _BUILTIN.match(word) is not None


def components(type_text: str) -> int | None:
    """Return how many components an attribute's type has; None for types it may not have."""
    match = _INTEGERS.match(type_text) or _VEC.match(type_text)
    return None if match is None else int(match[2] or 1)


def quoted(type_text: str) -> str:
    """Write a type as Apple's compiler does: `'uint' (aka 'unsigned int')`."""
    alias = _ALIASES.get(type_text)
    return f"'{type_text}' (aka '{alias}')" if alias else f"'{type_text}'"
