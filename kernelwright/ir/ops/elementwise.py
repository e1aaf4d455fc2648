"""Ops that map equal-shaped operands element by element."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature

import numpy as np

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.behaviour import PLAIN, Behaviour, Domain
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op

TRANSCENDENTAL_FLOPS = 8


def _map(
    name: str,
    function: Callable[..., Array],
    behaviour: Behaviour = PLAIN,
    *,
    flops: int = 1,
    commutative: bool = False,
    exact: bool = False,
    primitive: str = "",
    variant: int | None = None,
) -> Op:
    return Op(
        name,
        Kind.ELEMENTWISE,
        lambda call, *arrays: function(*arrays),
        operands=_operands_of(function),
        mlx=MlxCall(name),
        primitive=primitive,
        variant=variant,
        behaviour=behaviour,
        flops_per_element=flops,
        is_commutative=commutative,
        is_exact=exact,
    )


def _operands_of(function: Callable[..., Array]) -> int:
    return function.nin if isinstance(function, np.ufunc) else len(signature(function).parameters)


def _special(
    name: str,
    function: Callable[..., Array],
    behaviour: Behaviour,
    primitive: str = "",
    variant: int | None = None,
) -> Op:
    return _map(
        name,
        function,
        behaviour,
        flops=TRANSCENDENTAL_FLOPS,
        primitive=primitive,
        variant=variant,
    )


def _compare(name: str, function: Callable[..., Array], *, commutative: bool = False) -> Op:
    return _map(name, function, _COMPARISON, commutative=commutative, exact=True)


def _bitwise(name: str, function: Callable[..., Array], variant: int, behaviour: Behaviour) -> Op:
    return _map(
        name,
        function,
        behaviour,
        commutative=variant < _FIRST_SHIFT,
        exact=True,
        primitive="BitwiseBinary",
        variant=variant,
    )


def _scipy(name: str) -> Callable[..., Array]:
    def function(x: Array) -> Array:
        # SciPy takes 100 ms to import, and most graphs never need it.
        from scipy import special

        result: Array = getattr(special, name)(x)
        return result

    return function


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        # NumPy takes the root of what is raised to one scalar of 0.5: NaN for -inf, -0 for -0.
        is_root = (y == 0.5) & ((x == 0) | np.isneginf(x))
        return np.power(np.where(is_root, np.abs(x), x), y)
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    # MLX multiplies by repeated squaring; NumPy refuses negative integer exponents.
    result = np.ones_like(x)
    base, exponent = x.copy(), np.maximum(y, 0)
    while np.any(exponent > 0):
        result = np.where(exponent & 1 == 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    return result


def _floor_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.floor(x / y)
    return np.floor_divide(x, y)


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x)))


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _subtract(x: Array, y: Array) -> Array:
    # MLX subtracts truth values as numbers; NumPy refuses to.
    return np.not_equal(x, y) if x.dtype.kind == "b" else np.subtract(x, y)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "b":
        return x
    # That of no number is zero in MLX.
    return np.where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)


def _round(x: Array) -> Array:
    return np.rint(x) if x.dtype.kind in "fc" else x


def _equal(call: Call, x: Array, y: Array) -> Array:
    same = np.equal(x, y)
    if call.flag("equal_nan"):
        same = same | (np.not_equal(x, x) & np.not_equal(y, y))
    return same


def exact_dtype(dtype: Dtype) -> np.dtype:
    """Return what the oracle computes a dtype in: float64, complex128 or the exact integer."""
    if dtype.is_float:
        return np.dtype(np.float64)
    if dtype is Dtype.COMPLEX64:
        return np.dtype(np.complex128)
    return dtype.numpy


def _cast(call: Call, x: Array) -> Array:
    target = call.dtype("dtype")
    if x.dtype.kind == "c" and target is not Dtype.COMPLEX64:
        x = np.real(x)
    if target.is_integer and x.dtype.kind == "f":
        # A float beyond the target's range is undefined in C++; NumPy's own answer stands.
        return np.trunc(x).astype(np.int64 if target is not Dtype.UINT64 else np.uint64)
    return x.astype(exact_dtype(target))


def _within(ulps: float) -> Behaviour:
    """Return the behaviour of a function whose sound implementations err by so many ulps."""
    return Behaviour(ulps=ulps)


# Largest errors of precise float32 functions, as the Metal Shading Language Specification 4 lists
# them in table 8.2 and CUDA's math library meets them too. Divisions and roots take 2.5, since
# `x * rsqrt(v)` and `x * (1 / y)` are sound ways to them. Functions of eight have no entry there:
# MLX and kernels write them with exponentials and logarithms.
_ROOT = Behaviour(ulps=2.5, domains=(Domain.POSITIVE,))
_LOGARITHM = Behaviour(ulps=4.0, domains=(Domain.POSITIVE,))
_WAVE = Behaviour(ulps=4.0, is_bounded=True)
_EXPONENTIAL = Behaviour(ulps=4.0, scales_argument=True)
_COMPOSED = Behaviour(ulps=8.0)
_COMPOSED_EXPONENTIAL = Behaviour(ulps=8.0, scales_argument=True)
_COMPARISON = Behaviour(is_continuous=False, makes_bool=True, is_total=True)
_LOGICAL = Behaviour(makes_bool=True, is_total=True)
_EXTREME = Behaviour(picks=True, is_extreme=True, is_total=True, absorbs=True)
_DIVISION = Behaviour(is_continuous=False, domains=(Domain.ANY, Domain.DIVISOR), divides=True)
_SHIFT = Behaviour(absorbs=True, domains=(Domain.ANY, Domain.SHIFT))
_SHIFT_OF_WORD = replace(_SHIFT, domains=(Domain.PACKED, Domain.SHIFT))
_BITS = Behaviour(is_total=True, absorbs=True, is_bitwise=True)
_FIRST_SHIFT = 3
# A half cannot be added to them without rounding them up.
_BESIDE_HALVES = tuple(sign * n for n in (0.49999997, 0.50000006, 1.4999999) for sign in (1, -1))
# The last halves of bfloat16, float16 and float32, and odd numbers where only whole ones are left:
# what adds a half or a power of two to them rounds on the way.
_LAST_DIGITS = tuple(
    sign * (2.0**power + more)
    for power in (6, 9, 22)
    for more in (0.5, 1.5, 2.0**power + 1, 2.0**power + 3)
    for sign in (1, -1)
)
_WHOLE = Behaviour(is_continuous=False, steps=(-1.0, 0.0, 1.0, *_LAST_DIGITS))
_HALVES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
_NEAREST = replace(_WHOLE, steps=(*_HALVES, *_BESIDE_HALVES, *_LAST_DIGITS))
_SIGN = Behaviour(is_continuous=False, steps=(0.0,), is_bounded=True, is_total=True)
_TERM = Behaviour(ulps=0.5, is_total=True, joins=True)
_PRODUCT = Behaviour(ulps=0.5, is_total=True, absorbs=True, annihilates=True, keeps_sign=True)
_QUOTIENT = Behaviour(ulps=2.5, joins=True, keeps_sign=True, divides=True)
_OPPOSITE = Behaviour(picks=True, is_total=True, slopes=(-1.0,))

OPS: tuple[Op, ...] = (
    _map(
        "add",
        np.add,
        replace(_TERM, keeps_sign=True, slopes=(1.0, 1.0)),
        commutative=True,
        exact=True,
    ),
    _map("subtract", _subtract, replace(_TERM, slopes=(1.0, -1.0)), exact=True),
    _map("multiply", np.multiply, _PRODUCT, commutative=True, exact=True),
    _map("divide", np.divide, _QUOTIENT, exact=True),
    _map("floor_divide", _floor_divide, _DIVISION),
    _map("remainder", np.remainder, _DIVISION),
    _map("maximum", np.maximum, _EXTREME, commutative=True, exact=True),
    _map("minimum", np.minimum, _EXTREME, commutative=True, exact=True),
    _special("power", _power, Behaviour(ulps=16.0, absorbs=True, is_power=True)),
    _special("logaddexp", np.logaddexp, _COMPOSED_EXPONENTIAL, "LogAddExp"),
    _special("arctan2", np.arctan2, _within(6.0)),
    _compare("less", np.less),
    _compare("less_equal", np.less_equal),
    _compare("greater", np.greater),
    _compare("greater_equal", np.greater_equal),
    _compare("not_equal", np.not_equal, commutative=True),
    Op(
        "equal",
        Kind.ELEMENTWISE,
        _equal,
        attributes=("equal_nan",),
        is_exact=True,
        behaviour=_COMPARISON,
    ),
    _map("logical_and", np.logical_and, _LOGICAL, commutative=True, exact=True),
    _map("logical_or", np.logical_or, _LOGICAL, commutative=True, exact=True),
    _bitwise("bitwise_and", np.bitwise_and, 0, _BITS),
    _bitwise("bitwise_or", np.bitwise_or, 1, _BITS),
    _bitwise("bitwise_xor", np.bitwise_xor, 2, replace(_BITS, absorbs=False)),
    _bitwise("left_shift", np.left_shift, 3, _SHIFT),
    _bitwise(
        "right_shift", np.right_shift, 4, replace(_SHIFT, domains=(Domain.PACKED, Domain.SHIFT))
    ),
    Op(
        "select",
        Kind.ELEMENTWISE,
        lambda call, *arrays: np.where(*arrays),
        operands=3,
        mlx=MlxCall("where"),
        behaviour=Behaviour(picks=True, chooses=True, is_total=True),
        is_exact=True,
    ),
    _map("negative", np.negative, _OPPOSITE, exact=True),
    _map("abs", np.abs, Behaviour(picks=True, is_total=True), exact=True),
    _map("sign", _sign, _SIGN, exact=True),
    _map("square", np.square, Behaviour(ulps=0.5, is_total=True, is_power=True), exact=True),
    _map("logical_not", np.logical_not, _LOGICAL, exact=True),
    _map("bitwise_invert", np.invert, replace(_BITS, absorbs=False), exact=True),
    _map("floor", np.floor, _WHOLE, exact=True),
    _map("ceil", np.ceil, _WHOLE, exact=True),
    _map("round", _round, _NEAREST, exact=True),
    _map(
        "sqrt",
        np.sqrt,
        _ROOT,
        flops=TRANSCENDENTAL_FLOPS,
        exact=True,
        primitive="Sqrt",
        variant=0,
    ),
    _special("rsqrt", _rsqrt, _ROOT, "Sqrt", 1),
    _special("exp", np.exp, _EXPONENTIAL),
    _special("expm1", np.expm1, _COMPOSED_EXPONENTIAL),
    _special("log", np.log, _LOGARITHM, "Log", 2),
    _special("log2", np.log2, _LOGARITHM, "Log", 0),
    _special("log10", np.log10, _LOGARITHM, "Log", 1),
    _special("log1p", np.log1p, _COMPOSED),
    _special("sigmoid", _sigmoid, replace(_COMPOSED_EXPONENTIAL, is_bounded=True)),
    _special("tanh", np.tanh, Behaviour(ulps=5.0, is_bounded=True)),
    _special("sin", np.sin, _WAVE),
    _special("cos", np.cos, _WAVE),
    _special("tan", np.tan, _within(6.0)),
    _special("sinh", np.sinh, _EXPONENTIAL),
    _special("cosh", np.cosh, _EXPONENTIAL),
    _special("arcsin", np.arcsin, _within(4.0)),
    _special("arccos", np.arccos, _within(4.0)),
    _special("arctan", np.arctan, _within(5.0)),
    _special("arcsinh", np.arcsinh, _within(4.0)),
    _special("arccosh", np.arccosh, _within(4.0)),
    _special("arctanh", np.arctanh, _within(5.0)),
    _special("erf", _scipy("erf"), replace(_COMPOSED, is_bounded=True)),
    _special("erfinv", _scipy("erfinv"), _COMPOSED, "ErfInv"),
    _map("real", np.real),
    _map("imag", np.imag),
    _map("conjugate", np.conjugate),
    Op(
        "cast",
        Kind.ELEMENTWISE,
        _cast,
        attributes=("dtype",),
        primitive="AsType",
        behaviour=Behaviour(picks=True, converts=True),
        flops_per_element=0,
        is_exact=True,
    ),
)
