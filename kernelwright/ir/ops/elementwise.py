"""Ops that map equal-shaped operands element by element."""

from collections.abc import Callable

import numpy as np

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.ops.op import Array, Call, Kind, Op

TRANSCENDENTAL_FLOPS = 8


def _map(
    name: str,
    function: Callable[..., Array],
    msl: str | None,
    *,
    flops: int = 1,
    commutative: bool = False,
    exact: bool = False,
    needs: tuple[str, ...] = (),
) -> Op:
    return Op(
        name,
        Kind.ELEMENTWISE,
        lambda call, *arrays: function(*arrays),
        msl=msl,
        needs=needs,
        flops_per_element=flops,
        is_commutative=commutative,
        is_exact=exact,
    )


def _special(name: str, function: Callable[..., Array], msl: str | None, *needs: str) -> Op:
    return _map(name, function, msl, flops=TRANSCENDENTAL_FLOPS, needs=needs)


def _scipy(name: str) -> Callable[..., Array]:
    def function(x: Array) -> Array:
        # SciPy takes 100 ms to import, and most graphs never need it.
        from scipy import special

        result: Array = getattr(special, name)(x)
        return result

    return function


def _power(x: Array, y: Array) -> Array:
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


def _sign(x: Array) -> Array:
    # That of no number is zero in MLX.
    return np.where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)


def _round(x: Array) -> Array:
    return np.rint(x) if x.dtype.kind == "f" else x


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


_SIGMOID = "1.0f / (1.0f + metal::exp(-{0}))"
_LOGADDEXP = (
    "metal::isinf({0}) || metal::isinf({1}) ? metal::max({0}, {1}) : "
    "metal::max({0}, {1}) + log1p(metal::exp(-metal::abs({0} - {1})))"
)

OPS: tuple[Op, ...] = (
    _map("add", np.add, "{0} + {1}", commutative=True, exact=True),
    _map("subtract", np.subtract, "{0} - {1}", exact=True),
    _map("multiply", np.multiply, "{0} * {1}", commutative=True, exact=True),
    _map("divide", np.divide, "{0} / {1}", exact=True),
    _map("floor_divide", _floor_divide, "metal::floor({0} / {1})"),
    _map("remainder", np.remainder, "{0} - metal::floor({0} / {1}) * {1}"),
    _map("maximum", np.maximum, "metal::max({0}, {1})", commutative=True, exact=True),
    _map("minimum", np.minimum, "metal::min({0}, {1})", commutative=True, exact=True),
    _special("power", _power, "metal::pow({0}, {1})"),
    _special("logaddexp", np.logaddexp, _LOGADDEXP, "log1p"),
    _special("arctan2", np.arctan2, "metal::atan2({0}, {1})"),
    _map("less", np.less, "{0} < {1}", exact=True),
    _map("less_equal", np.less_equal, "{0} <= {1}", exact=True),
    _map("greater", np.greater, "{0} > {1}", exact=True),
    _map("greater_equal", np.greater_equal, "{0} >= {1}", exact=True),
    _map("not_equal", np.not_equal, "{0} != {1}", commutative=True, exact=True),
    Op(
        "equal",
        Kind.ELEMENTWISE,
        _equal,
        attributes=("equal_nan",),
        msl="{0} == {1}",
        is_exact=True,
    ),
    _map("logical_and", np.logical_and, "{0} && {1}", commutative=True, exact=True),
    _map("logical_or", np.logical_or, "{0} || {1}", commutative=True, exact=True),
    _map("bitwise_and", np.bitwise_and, "{0} & {1}", commutative=True, exact=True),
    _map("bitwise_or", np.bitwise_or, "{0} | {1}", commutative=True, exact=True),
    _map("bitwise_xor", np.bitwise_xor, "{0} ^ {1}", commutative=True, exact=True),
    _map("left_shift", np.left_shift, "{0} << {1}", exact=True),
    _map("right_shift", np.right_shift, "{0} >> {1}", exact=True),
    _map("select", np.where, "{0} ? {1} : {2}", exact=True),
    _map("negative", np.negative, "-{0}", exact=True),
    _map("abs", np.abs, "metal::abs({0})", exact=True),
    _map("sign", _sign, "metal::sign({0})", exact=True),
    _map("square", np.square, "{0} * {0}", exact=True),
    _map("logical_not", np.logical_not, "!{0}", exact=True),
    _map("bitwise_invert", np.invert, "~{0}", exact=True),
    _map("floor", np.floor, "metal::floor({0})", exact=True),
    _map("ceil", np.ceil, "metal::ceil({0})", exact=True),
    _map("round", _round, "metal::rint({0})", exact=True),
    _map("sqrt", np.sqrt, "metal::precise::sqrt({0})", flops=TRANSCENDENTAL_FLOPS, exact=True),
    _special("rsqrt", _rsqrt, "metal::precise::rsqrt({0})"),
    _special("exp", np.exp, "metal::precise::exp({0})"),
    _special("expm1", np.expm1, "expm1({0})", "expm1"),
    _special("log", np.log, "metal::precise::log({0})"),
    _special("log2", np.log2, "metal::precise::log2({0})"),
    _special("log10", np.log10, "metal::precise::log10({0})"),
    _special("log1p", np.log1p, "log1p({0})", "log1p"),
    _special("sigmoid", _sigmoid, _SIGMOID),
    _special("tanh", np.tanh, "metal::precise::tanh({0})"),
    _special("sin", np.sin, "metal::precise::sin({0})"),
    _special("cos", np.cos, "metal::precise::cos({0})"),
    _special("tan", np.tan, "metal::precise::tan({0})"),
    _special("sinh", np.sinh, "metal::precise::sinh({0})"),
    _special("cosh", np.cosh, "metal::precise::cosh({0})"),
    _special("arcsin", np.arcsin, "metal::precise::asin({0})"),
    _special("arccos", np.arccos, "metal::precise::acos({0})"),
    _special("arctan", np.arctan, "metal::precise::atan({0})"),
    _special("arcsinh", np.arcsinh, "metal::precise::asinh({0})"),
    _special("arccosh", np.arccosh, "metal::precise::acosh({0})"),
    _special("arctanh", np.arctanh, "metal::precise::atanh({0})"),
    _special("erf", _scipy("erf"), "erf({0})", "erf"),
    _special("erfinv", _scipy("erfinv"), "erfinv({0})", "erfinv"),
    _map("real", np.real, None),
    _map("imag", np.imag, None),
    _map("conjugate", np.conjugate, None),
    Op(
        "cast",
        Kind.ELEMENTWISE,
        _cast,
        attributes=("dtype",),
        msl="static_cast<{dtype}>({0})",
        flops_per_element=0,
        is_exact=True,
    ),
)
