"""The functions and constants that expressions may name, and what a prefix says of them.

A name that MLX or Python has means what MLX computes; one that only Metal has, or that stands
behind `metal::`, means what Metal's specification says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import mlx.core as mx

from kernelwright.service.python.authoring.metal_function import (
    metal_clamp,
    metal_maximum,
    metal_minimum,
    metal_remainder,
    metal_round,
    metal_sign,
)

Value = mx.array | int | float | bool
"""What an expression computes with: arrays, and numbers that promote as MLX's do."""


@dataclass(frozen=True)
class Intrinsic:
    """A function of the language."""

    call: Callable[..., Value]
    least: int = 1
    most: int | None = 1
    """How many arguments it takes; None is any number."""
    reduces: bool = False
    """True where it takes a whole row, the last axis, to one value."""


def _folded(pair: Callable[[Value, Value], Value]) -> Intrinsic:
    return Intrinsic(lambda *values: reduce(pair, values), least=2, most=None)


def _mix(x: Value, y: Value, a: Value) -> Value:
    return x + (y - x) * a


def _silu(x: Value) -> Value:
    return x * mx.sigmoid(x)  # type: ignore[arg-type, operator]


def _gelu(x: Value) -> Value:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2  # type: ignore[arg-type, operator]


def _softplus(x: Value) -> Value:
    return mx.logaddexp(x, 0)


def _select(otherwise: Value, chosen: Value, condition: Value) -> Value:
    """As Metal's: `condition ? chosen : otherwise`."""
    return mx.where(condition, chosen, otherwise)


def _cast(dtype: mx.Dtype, x: Value) -> Value:
    return mx.array(x).astype(dtype) if not isinstance(x, mx.array) else x.astype(dtype)


_ONE = (
    *("abs", "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan"),
    *("sinh", "cosh", "tanh", "erf", "erfinv", "sigmoid", "floor", "ceil", "round", "sign"),
    *("square", "reciprocal", "isnan", "isinf", "isfinite"),
)
_RENAMED = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "fabs": "abs",
    "rint": "round",
}
_TWO = {
    "pow": "power",
    "power": "power",
    "remainder": "remainder",
    "atan2": "arctan2",
    "logaddexp": "logaddexp",
}
_CASTS = {
    "float": mx.float32,
    "half": mx.float16,
    "bfloat": mx.bfloat16,
    "bool": mx.bool_,
    "char": mx.int8,
    "uchar": mx.uint8,
    "short": mx.int16,
    "ushort": mx.uint16,
    "int": mx.int32,
    "uint": mx.uint32,
    "long": mx.int64,
    "ulong": mx.uint64,
}
_ARRAY_FUNCTIONS: dict[str, Intrinsic] = {
    **{name: Intrinsic(getattr(mx, name)) for name in (*_ONE, *_RENAMED.values())},
    **{name: Intrinsic(getattr(mx, found), 2, 2) for name, found in _TWO.items()},
    "where": Intrinsic(lambda c, a, b: mx.where(c, a, b), 3, 3),
    "minimum": Intrinsic(mx.minimum, 2, 2),
    "maximum": Intrinsic(mx.maximum, 2, 2),
}
_METAL_ONLY: dict[str, Intrinsic] = {
    "fmod": Intrinsic(metal_remainder, 2, 2),
    "fmin": Intrinsic(metal_minimum, 2, 2),
    "fmax": Intrinsic(metal_maximum, 2, 2),
    "clamp": Intrinsic(metal_clamp, 3, 3),
    "fma": Intrinsic(lambda a, b, c: a * b + c, 3, 3),
    "mix": Intrinsic(_mix, 3, 3),
    "select": Intrinsic(_select, 3, 3),
    "exp2": Intrinsic(lambda x: mx.power(2.0, x)),
}
INTRINSICS: dict[str, Intrinsic] = {
    **_ARRAY_FUNCTIONS,
    **_METAL_ONLY,
    **{name: Intrinsic(getattr(mx, found)) for name, found in _RENAMED.items()},
    **{name: Intrinsic(partial(_cast, dtype)) for name, dtype in _CASTS.items()},
    "relu": Intrinsic(lambda x: mx.maximum(x, 0)),
    "silu": Intrinsic(_silu),
    "gelu": Intrinsic(_gelu),
    "softplus": Intrinsic(_softplus),
    "min": _folded(mx.minimum),
    "max": _folded(mx.maximum),
    "minimum": _folded(mx.minimum),
    "maximum": _folded(mx.maximum),
}
"""By name, where no prefix stands before it."""
_METAL_MATH = (
    *("abs", "fabs", "exp", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh"),
    *("cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2", "pow", "floor"),
    *("ceil", "rint", "isnan", "isinf", "isfinite"),
)
METAL_INTRINSICS: dict[str, Intrinsic] = {
    **{name: INTRINSICS[name] for name in _METAL_MATH},
    **_METAL_ONLY,
    "min": _METAL_ONLY["fmin"],
    "max": _METAL_ONLY["fmax"],
    "round": Intrinsic(metal_round),
    "sign": Intrinsic(metal_sign),
}
"""Behind `metal::`, which `precise::` or `fast::` may follow: what Metal computes."""
_MATH = (
    *("exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh"),
    *("cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2", "erf", "fabs"),
    *("floor", "ceil", "isnan", "isinf", "isfinite", "pow", "fmod", "fma"),
)
_NUMPY_ONLY = ("fabs", "rint", "fmod", "fmin", "fmax", "exp2")
_NOT_NUMPY = ("rsqrt", "erf", "erfinv", "sigmoid")
PREFIXED: dict[str, dict[str, Intrinsic]] = {
    **dict.fromkeys(("metal", "precise", "fast"), METAL_INTRINSICS),
    "mx": _ARRAY_FUNCTIONS,
    "math": {name: INTRINSICS[name] for name in _MATH},
    "np": {
        name: INTRINSICS[name]
        for name in (*_ARRAY_FUNCTIONS, *_NUMPY_ONLY)
        if name not in _NOT_NUMPY
    },
}
"""The functions that each prefix has."""


def _row(reduction: Callable[..., mx.array]) -> Intrinsic:
    return Intrinsic(lambda x: reduction(x, axis=-1, keepdims=True), reduces=True)


REDUCTIONS: dict[str, Intrinsic] = {
    "sum": _row(mx.sum),
    "mean": _row(mx.mean),
    "max": _row(mx.max),
    "min": _row(mx.min),
    "prod": _row(mx.prod),
}
"""Of one argument: along the last axis, which stays with size 1."""
CONSTANTS: dict[str, Value] = {
    "pi": math.pi,
    "M_PI_F": math.pi,
    "M_E_F": math.e,
    "inf": math.inf,
    "INFINITY": math.inf,
    "nan": math.nan,
    "NAN": math.nan,
    "true": True,
    "false": False,
}
