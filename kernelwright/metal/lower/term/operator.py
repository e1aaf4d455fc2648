"""MSL expressions of elementwise operations, exact for integers and safe for NaN and infinity."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype

MSL_TYPE = {
    Dtype.BOOL: "bool",
    Dtype.UINT8: "uint8_t",
    Dtype.UINT16: "uint16_t",
    Dtype.UINT32: "uint",
    Dtype.UINT64: "ulong",
    Dtype.INT8: "int8_t",
    Dtype.INT16: "int16_t",
    Dtype.INT32: "int",
    Dtype.INT64: "long",
    Dtype.FLOAT16: "half",
    Dtype.BFLOAT16: "bfloat16_t",
    Dtype.FLOAT32: "float",
}

NOUNS = {
    "add": "sum",
    "subtract": "difference",
    "multiply": "product",
    "divide": "ratio",
    "floor_divide": "quotient",
    "remainder": "remainder",
    "maximum": "upper",
    "minimum": "lower",
    "power": "power",
    "select": "choice",
    "negative": "opposite",
    "abs": "magnitude",
    "square": "square",
    "sqrt": "root",
    "rsqrt": "inverse_root",
    "exp": "exponential",
    "expm1": "growth",
    "log": "logarithm",
    "log1p": "logarithm",
    "sigmoid": "gate",
    "tanh": "tangent",
    "sin": "sine",
    "cos": "cosine",
    "erf": "error",
    "floor": "whole",
    "ceil": "whole",
    "round": "nearest",
    "cast": "number",
}
"""What a person would call the result of an op."""

_WRAPPING = {"add", "subtract", "multiply", "left_shift", "negative", "bitwise_invert"}
_COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
_LOGICAL = {"logical_and", "logical_or", "logical_not"}

SPELLINGS = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "floor_divide": "metal::floor({0} / {1})",
    "remainder": "{0} - metal::floor({0} / {1}) * {1}",
    "power": "metal::pow({0}, {1})",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "not_equal": "{0} != {1}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "left_shift": "{0} << {1}",
    "right_shift": "{0} >> {1}",
    "select": "{0} ? {1} : {2}",
    "negative": "-{0}",
    "abs": "metal::abs({0})",
    "sign": "metal::sign({0})",
    "square": "{0} * {0}",
    "logical_not": "!{0}",
    "bitwise_invert": "~{0}",
    "floor": "metal::floor({0})",
    "ceil": "metal::ceil({0})",
    "round": "metal::rint({0})",
    "sqrt": "metal::precise::sqrt({0})",
    "rsqrt": "metal::precise::rsqrt({0})",
    "exp": "metal::precise::exp({0})",
    "log": "metal::precise::log({0})",
    "log2": "metal::precise::log2({0})",
    "log10": "metal::precise::log10({0})",
    "tanh": "metal::precise::tanh({0})",
    "sin": "metal::precise::sin({0})",
    "cos": "metal::precise::cos({0})",
    "tan": "metal::precise::tan({0})",
    "sinh": "metal::precise::sinh({0})",
    "cosh": "metal::precise::cosh({0})",
    "arcsin": "metal::precise::asin({0})",
    "arccos": "metal::precise::acos({0})",
    "arctan": "metal::precise::atan({0})",
    "arcsinh": "metal::precise::asinh({0})",
    "arccosh": "metal::precise::acosh({0})",
    "arctanh": "metal::precise::atanh({0})",
    "equal": "{0} == {1}",
}
"""Elementwise ops over `{0}`, `{1}` where no table of a kind of number has another form: floats are
float32 there, bool and integers their own Metal type."""
_FLOAT = {
    "remainder": "floor_remainder({0}, {1})",
    "maximum": "larger({0}, {1})",
    "minimum": "smaller({0}, {1})",
    "logaddexp": "logaddexp({0}, {1})",
    "sigmoid": "sigmoid({0})",
    "arctan2": "metal::precise::atan2({0}, {1})",
    "log1p": "log1p_of({0})",
    "expm1": "expm1_of({0})",
    "erf": "erf_of({0})",
    "erfinv": "erfinv_of({0})",
}
_HALF = {
    "exp": "metal::fast::exp({0})",
    "sigmoid": "quick_sigmoid({0})",
    "tanh": "quick_tanh({0})",
    "logaddexp": "quick_logaddexp({0}, {1})",
}
"""What MLX rounds to 16 bits: errors of a few float roundings are a thousandth of that."""
_INTEGER = {
    "floor_divide": "floor_quotient({0}, {1})",
    "remainder": "floor_modulus({0}, {1})",
    "maximum": "metal::max({0}, {1})",
    "minimum": "metal::min({0}, {1})",
    "power": "integer_power({0}, {1})",
    "floor": "{0}",
    "ceil": "{0}",
    "round": "{0}",
    "sign": "sign_of({0})",
}
_UNSIGNED = {
    "abs": "{0}",
    "floor_divide": "{0} / {1}",
    "remainder": "{0} % {1}",
}
_BOOL = {
    "add": "{0} || {1}",
    "multiply": "{0} && {1}",
    "maximum": "{0} || {1}",
    "minimum": "{0} && {1}",
    "bitwise_invert": "!{0}",
    "abs": "{0}",
    "square": "{0}",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """How to write an op: an expression over `{0}` … and the dtype that it has."""

    template: str
    dtype: Dtype


def exponential_for(graph: Graph) -> str:
    """Return the exponential of a softmax that is as exact as the graph's results are stored.

    Its arguments are not positive, and MLX's own softmax takes the fast one for every dtype
    (softmax_exp in mlx/backend/metal/kernels/softmax.h, MLX 0.32).
    """
    return "metal::precise::exp" if _stores_floats(graph) else "metal::fast::exp"


def tangent_for(graph: Graph) -> str:
    """Return the tangent that bends scores under a cap, as exact as the results are stored."""
    return "metal::precise::tanh({0})" if _stores_floats(graph) else "quick_tanh({0})"


def _stores_floats(graph: Graph) -> bool:
    return any(t.dtype is Dtype.FLOAT32 for t in graph.output_types)


def meaning(
    op: str, operands: Sequence[Dtype], result: Dtype, stored: Dtype | None = None
) -> Meaning:
    """Return the expression of an elementwise op over computed dtypes.

    `stored` is the dtype to which MLX would round the result, where it is another one.

    Raises:
        UnsupportedError: the op has no MSL expression for these dtypes.
    """
    kind = operands[-1] if operands else result
    if unsupported := [d for d in (*operands, result) if d not in MSL_TYPE]:
        raise UnsupportedError(f"{op} over {unsupported[0].short} has no Metal kernel yet.")
    table = _table(kind) | (_HALF if stored in (Dtype.FLOAT16, Dtype.BFLOAT16) else {})
    template = table.get(op) or SPELLINGS.get(op)
    if template is None:
        raise UnsupportedError(f"{op} over {kind.short} has no Metal kernel yet.")
    # C++ promotes integers of fewer than 32 bits, so results that wrap are cut back.
    if op in _WRAPPING and result.is_integer and result.itemsize < 4:
        template = f"{MSL_TYPE[result]}({template})"
    return Meaning(template, result)


def conversion(source: Dtype, target: Dtype) -> str:
    """Return the expression that converts a computed value to another computed dtype."""
    if source is target:
        return "{0}"
    return "{0} != 0" if target is Dtype.BOOL else f"{MSL_TYPE[target]}({{0}})"


def _table(dtype: Dtype) -> dict[str, str]:
    if dtype is Dtype.BOOL:
        return _BOOL
    if dtype.is_float:
        return _FLOAT
    return _INTEGER if dtype.value.startswith("int") else _INTEGER | _UNSIGNED
