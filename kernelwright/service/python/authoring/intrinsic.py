"""The functions and constants that expressions may name, as in Metal and as MLX computes them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import mlx.core as mx

Value = mx.array | int | float | bool
"""What an expression computes with: arrays, and numbers that take the arrays' dtype."""


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


def _clamp(x: Value, low: Value, high: Value) -> Value:
    return mx.minimum(mx.maximum(x, low), high)


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
    "fmod": "remainder",
    "remainder": "remainder",
    "atan2": "arctan2",
    "logaddexp": "logaddexp",
}
_CASTS = {
    "float": mx.float32,
    "half": mx.float16,
    "bfloat": mx.bfloat16,
    "int": mx.int32,
    "uint": mx.uint32,
}
INTRINSICS: dict[str, Intrinsic] = {
    **{name: Intrinsic(getattr(mx, name)) for name in _ONE},
    **{name: Intrinsic(getattr(mx, found)) for name, found in _RENAMED.items()},
    **{name: Intrinsic(getattr(mx, found), 2, 2) for name, found in _TWO.items()},
    **{name: Intrinsic(partial(_cast, dtype)) for name, dtype in _CASTS.items()},
    "relu": Intrinsic(lambda x: mx.maximum(x, 0)),
    "silu": Intrinsic(_silu),
    "gelu": Intrinsic(_gelu),
    "softplus": Intrinsic(_softplus),
    "exp2": Intrinsic(lambda x: mx.power(2.0, x)),
    "fma": Intrinsic(lambda a, b, c: a * b + c, 3, 3),
    "clamp": Intrinsic(_clamp, 3, 3),
    "mix": Intrinsic(_mix, 3, 3),
    "select": Intrinsic(_select, 3, 3),
    "where": Intrinsic(lambda c, a, b: mx.where(c, a, b), 3, 3),
    "min": _folded(mx.minimum),
    "max": _folded(mx.maximum),
    "fmin": _folded(mx.minimum),
    "fmax": _folded(mx.maximum),
    "minimum": _folded(mx.minimum),
    "maximum": _folded(mx.maximum),
}
"""By name; a prefix such as `metal::` or `mx.` is left out."""


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
    "true": True,
    "false": False,
}
PREFIXES = frozenset({"metal", "precise", "fast", "math", "mx", "np"})
