"""MSL of every scalar op, exact for integers and safe for NaN and infinity."""

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Apply
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp

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

_WRAPPING = {"add", "subtract", "multiply", "left_shift", "negative", "bitwise_invert"}

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
    "convert": "{T}({0})",
    "bitcast": "as_type<{T}>({0})",
    "cube": "{0} * {0} * {0}",
    "rounded_multiply": "metal::fma({0}, {1}, 0.0f)",
    "rounded_square": "metal::fma({0}, {0}, 0.0f)",
    "divisor_scale": "scale_for({0})",
    "divide_by_reciprocal": "shared_quotient({0}, {1}, {2})",
    "log_of_shifted_sum": "metal::isinf({0}) ? {0} : metal::precise::log({1}) + {0}",
    "from_end": "{0} < 0 ? {0} + {1} : {0}",
    "funnel_shift": "uint((ulong({0}) << 32 | {1}) >> {2})",
    "power_of_two": "power_of_two({0})",
    "eight_bit_float": "eight_bit_float({0})",
}
"""Ops over `{0}`, `{1}` where no table of a kind of number has another form: floats are
float32 there, bool and integers their own Metal type; `{T}` is the type
of the result."""
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
FAST = {
    "exp": "metal::fast::exp({0})",
    "sigmoid": "quick_sigmoid({0})",
    "tanh": "quick_tanh({0})",
    "logaddexp": "quick_logaddexp({0}, {1})",
}
"""For what MLX rounds to 16 bits: errors of a few float roundings are a thousandth of that."""
_INTEGER = {
    "floor_divide": "floor_quotient({0}, {1})",
    "remainder": "floor_modulus({0}, {1})",
    "maximum": "metal::max({0}, {1})",
    "minimum": "metal::min({0}, {1})",
    "power": "integer_power({0}, {1})",
    "sign": "sign_of({0})",
}
_UNSIGNED = {
    "floor_divide": "{0} / {1}",
    "remainder": "{0} % {1}",
}


def template(term: Apply) -> str:
    """Return how an expression is written over its operands `{0}`, `{1}` ...."""
    found = spelling(term.op, term.arguments[-1].dtype, term.dtype, is_fast=term.is_fast)
    assert found is not None, f"{term.op} has no spelling"
    return found


def spelling(op: str, operand: Dtype, result: Dtype, *, is_fast: bool = False) -> str | None:
    """Return how an op over operands of a dtype is written; None where Metal has no form of it."""
    if op == ScalarOp.CONVERT and result is Dtype.BOOL:
        return "{0} != 0"
    found = (FAST if is_fast else {}).get(op) or _table(operand).get(op) or SPELLINGS.get(op)
    if found is None:
        return None
    found = found.replace("{T}", MSL_TYPE[result])
    # C++ promotes integers of fewer than 32 bits, so results that wrap are cut back.
    is_cut = op in _WRAPPING and result.is_integer and result.itemsize < 4
    return f"{MSL_TYPE[result]}({found})" if is_cut else found


def function_name(op: str, *, is_fast: bool = False) -> str:
    """Return the function that computes an op of one float."""
    found = spelling(op, Dtype.FLOAT32, Dtype.FLOAT32, is_fast=is_fast)
    assert found is not None, f"{op} has no spelling"
    return found.removesuffix("({0})")


def _table(dtype: Dtype) -> dict[str, str]:
    if dtype is Dtype.BOOL:
        return {}
    if dtype.is_float:
        return _FLOAT
    return _INTEGER if dtype.value.startswith("int") else _INTEGER | _UNSIGNED
