"""Integers and floats of a kernel at many sizes at once, as Metal computes them in 32 bits."""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64] | NDArray[np.float64]
_WIDTHS = {
    **dict.fromkeys(("char", "int8_t", "uchar", "uint8_t"), 8),
    **dict.fromkeys(("short", "int16_t", "ushort", "uint16_t"), 16),
    **dict.fromkeys(("int", "int32_t", "uint", "uint32_t", "unsigned", "unsigned int"), 32),
    **dict.fromkeys(("long", "int64_t", "ulong", "uint64_t", "size_t", "ptrdiff_t"), 64),
}
_UNSIGNED = re.compile(r"u|size_t")
_FLOATS = frozenset(("float", "half", "bfloat", "bfloat16_t"))
_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")


@dataclass(frozen=True)
class SizeValue:
    """One expression at each of the sizes; a constant has one value."""

    values: Values
    type_: str
    """`bool`, `float`, or an integer type."""


def is_number_type(name: str) -> bool:
    """Say whether a name in a text is a type of numbers."""
    return name in _WIDTHS or name in _FLOATS or name == "bool"


def converted(given: SizeValue, type_: str) -> SizeValue:
    """Convert to a type that is named in a text; what is no type of numbers leaves it as it is."""
    if not is_number_type(type_):
        return given
    if type_ == "bool":
        return SizeValue((given.values != 0).astype(np.int64), "bool")
    if type_ in _FLOATS:
        return SizeValue(given.values.astype(np.float32).astype(np.float64), "float")
    return _wrapped(given.values, type_)


def _wrapped(values: Values, type_: str) -> SizeValue:
    width = _WIDTHS[type_]
    with np.errstate(all="ignore"):
        whole = values.astype(np.int64)
    if values.dtype.kind == "f":
        whole = np.clip(np.nan_to_num(values), -(2.0**62), 2.0**62).astype(np.int64)
    if width < 64:
        mask, half = (1 << width) - 1, 1 << (width - 1)
        is_unsigned = _UNSIGNED.match(type_) is not None
        whole = whole & mask if is_unsigned else ((whole + half) & mask) - half
    return SizeValue(whole, type_)


def number(text: str) -> SizeValue | None:
    """Read a number as it stands in a text."""
    plain = text.replace("'", "")
    if found := _LITERAL.match(plain):
        digits, marks = found[1], found[2].lower()
        value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits.lstrip("0") or "0")
        if value >= 1 << 63:
            return None
        is_long = "l" in marks or value >= 1 << 32
        is_unsigned = "u" in marks or value >= 1 << 31
        type_ = ("u" if is_unsigned else "") + ("long" if is_long else "int")
        return SizeValue(np.array([value], np.int64), type_)
    try:
        return SizeValue(np.array([float(plain.rstrip("fFhH"))]), "float")
    except ValueError:
        return None


def _common(values: tuple[SizeValue, ...]) -> str:
    types = {v.type_ for v in values}
    if "float" in types:
        return "float"
    widths = [_WIDTHS.get(t, 32) for t in types]
    width = max(*widths, 32) if widths else 32
    is_unsigned = any(_UNSIGNED.match(t) and _WIDTHS[t] == width for t in types if t in _WIDTHS)
    return ("u" if is_unsigned else "") + ("long" if width == 64 else "int")


def _divided(a: Values, b: Values) -> Values:
    safe = np.where(b == 0, 1, b)
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return np.asarray(a / safe)
    return np.asarray(np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)))


def _left_over(a: Values, b: Values) -> Values:
    return np.asarray(a - _divided(a, b) * np.where(b == 0, 1, b))


def _bits(a: Values) -> NDArray[np.int64]:
    return np.frexp(a.astype(np.float64))[1].astype(np.int64)


_ARITHMETIC: Mapping[str, Callable[..., Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divided,
    "%": _left_over,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: np.left_shift(a, b & 63),
    ">>": lambda a, b: np.right_shift(a, b & 63),
    "min": np.minimum,
    "max": np.maximum,
}
_ORDERS: Mapping[str, Callable[..., NDArray[np.bool_]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": lambda a, b: (a != 0) & (b != 0),
    "||": lambda a, b: (a != 0) | (b != 0),
}
_OF_BITS = frozenset(("%", "&", "|", "^", "<<", ">>", "~", "clz", "ctz", "popcount"))


def combined(operator: str, *operands: SizeValue | None) -> SizeValue | None:
    """Return what an operation makes; None where it is unknown."""
    known = tuple(o for o in operands if o is not None)
    if not known or len(known) < len(operands):
        return None
    type_ = _common(known)
    if type_ == "float" and operator in _OF_BITS:
        return None
    if len(known) == 1:
        return _of_one(operator, known[0], type_)
    if operator in _ORDERS and len(known) == 2:
        one, other = (converted(v, type_).values for v in known)
        return SizeValue(_ORDERS[operator](one, other).astype(np.int64), "bool")
    if operator in ("?", "select") and len(known) == 3:
        tested, chosen, refused = known if operator == "?" else known[::-1]
        type_ = _common((chosen, refused))
        pair = (converted(v, type_).values for v in (chosen, refused))
        return SizeValue(np.where(tested.values != 0, *pair), type_)
    if operator not in _ARITHMETIC or len(known) != 2:
        return None
    if operator in ("<<", ">>"):
        type_ = _common(known[:1])
    one, other = (converted(v, type_).values for v in known)
    with np.errstate(all="ignore"):
        return converted(SizeValue(_ARITHMETIC[operator](one, other), type_), type_)


def _of_one(operator: str, given: SizeValue, type_: str) -> SizeValue | None:
    values = given.values
    if operator == "!":
        return SizeValue((values == 0).astype(np.int64), "bool")
    if operator in ("-", "+", "abs"):
        made = -values if operator == "-" else np.abs(values) if operator == "abs" else values
        return converted(SizeValue(made, type_), type_)
    if type_ == "float":
        return None
    whole = values.astype(np.int64)
    if operator == "~":
        return converted(SizeValue(~whole, type_), type_)
    low = whole & 0xFFFFFFFF
    if operator == "clz":
        return SizeValue(32 - _bits(low), type_)
    if operator == "ctz":
        return SizeValue(np.where(low == 0, 32, _bits(low & -low) - 1), type_)
    if operator == "popcount":
        return SizeValue(np.bitwise_count(low).astype(np.int64), type_)
    return None


def shifted_out(
    left: SizeValue, right: SizeValue, made: SizeValue, operator: str
) -> NDArray[np.bool_]:
    """Say where a remainder, a mask or a shift to the left loses something."""
    if operator == "<<":
        back = np.right_shift(made.values.astype(np.int64), right.values.astype(np.int64) & 63)
        return np.asarray(back != left.values)
    return np.asarray(made.values != left.values)


_EXTENTS: Mapping[str, Callable[..., NDArray[np.int64]]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mult": np.multiply,
    "FloorDiv": lambda a, b: a // np.where(b == 0, 1, b),
    "Mod": lambda a, b: a % np.where(b == 0, 1, b),
    "min": np.minimum,
    "max": np.maximum,
    "ceildiv": lambda a, b: -(-a // np.where(b == 0, 1, b)),
    "align": lambda a, b: -(-a // np.where(b == 0, 1, b)) * b,
}


_WORD = re.compile(r"\d+|[A-Za-z_]\w*")


def extents(extent: int | str, sizes: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return what launch arithmetic comes to at each of the sizes."""
    if isinstance(extent, int):
        return np.array([extent], np.int64)
    text = _WORD.sub(_as_python, extent.strip())
    return _extents(ast.parse(text, mode="eval").body, sizes)


def _as_python(word: re.Match[str]) -> str:
    """Spell a name that may be a keyword of Python, or a number that may begin with zeros."""
    text = word[0]
    if text.isdigit():
        return str(int(text))
    return text if text in _EXTENTS else f"_{text}"


def _extents(node: ast.expr, sizes: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    if isinstance(node, ast.BinOp):
        pair = (_extents(side, sizes) for side in (node.left, node.right))
        return np.asarray(_EXTENTS[type(node.op).__name__](*pair))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return np.asarray(_EXTENTS[node.func.id](*(_extents(a, sizes) for a in node.args)))
    if isinstance(node, ast.Name):
        return sizes[node.id.removeprefix("_")]
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return np.array([node.value], np.int64)
