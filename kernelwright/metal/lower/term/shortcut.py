"""What an expression need not say, seen in its operands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import (
    Apply,
    Expr,
    IndexValue,
    Literal,
    ReduceExpr,
    Reducer,
)
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder

NEUTRAL = frozenset(
    {(ScalarOp.MULTIPLY, "1.0f"), (ScalarOp.DIVIDE, "1.0f"), (ScalarOp.SUBTRACT, "0.0f")}
)
"""Expressions with the number that makes them their first operand."""


def is_place(term: Expr) -> bool:
    """Say whether a term is a place in an array: never -0, so that adding 0 changes nothing."""
    return isinstance(term, Apply) and isinstance(term.arguments[0], IndexValue)


def text_of(term: Expr) -> str:
    """Return a number's text, nothing for other terms."""
    return term.text if isinstance(term, Literal) else ""


_SHORT_POWERS = {"2.0f": ScalarOp.SQUARE, "3.0f": ScalarOp.CUBE}


def short_power(exponent: Expr) -> ScalarOp | None:
    """Return the product that a small power is."""
    if not isinstance(exponent, Literal) or not exponent.dtype.is_float:
        return None
    return _SHORT_POWERS.get(exponent.text)


def is_shifted(body: Expr, axis: Axis) -> bool:
    """Say whether a value had the maximum over `axis` taken from it already."""
    match body:
        case Apply(
            op=ScalarOp.SUBTRACT,
            arguments=(shifted, ReduceExpr(reducer=Reducer.MAXIMUM, body=inner, axis=over)),
        ):
            return shifted is inner and over == axis
    return False


def is_magnitude(body: Expr) -> bool:
    """Say whether a value is a float without its sign."""
    match body:
        case Apply(op=ScalarOp.ABS, dtype=Dtype.FLOAT32):
            return True
    return False


def mean_name(body: Expr) -> str:
    """Name a mean after what it averages."""
    match body:
        case Apply(op=ScalarOp.SQUARE, arguments=(Apply(op=ScalarOp.SUBTRACT),)):
            return "variance"
        case Apply(op=ScalarOp.SQUARE):
            return "mean_square"
        case Apply(op=ScalarOp.ADD, arguments=(first, _)):
            return mean_name(first)
    return "mean"


def shorter(builder: "Builder", op: str, operands: Sequence[Expr], stored: Dtype) -> Expr | None:
    """Return what takes fewer instructions than an op, and differs by a rounding of float.

    `stored` is the dtype of 16 bits to which MLX rounds the result.
    """
    if len(operands) != 2:
        return None
    left, right = operands
    if op == "multiply":
        return _with_one_number(builder, [*_factors(left), *_factors(right)])
    if op == "divide" and _is_divisor(text_of(right)):
        inverse = builder.number(float(1 / np.float32(_value(right))), Dtype.FLOAT32)
        return builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "ratio", left, inverse)
    if op == "divide" and stored is Dtype.FLOAT16 and _is_still_along_row(right, left):
        # What stays the same along a row is inverted once; no half's inverse leaves float's range.
        one = builder.number(1.0, Dtype.FLOAT32)
        inverse = builder.apply(ScalarOp.DIVIDE, Dtype.FLOAT32, "inverse", one, right)
        return builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "ratio", left, inverse)
    if op == "add" and text_of(left) == "1.0f":
        left, right = right, left
    if op == "add" and text_of(right) == "1.0f":
        match left:
            case Apply(op=ScalarOp.TANH, arguments=(term,)):
                return _doubled_sigmoid(builder, term)
    return None


def shared_quotient(builder: "Builder", dividend: Expr, divisor: Expr) -> Expr | None:
    """Return a float quotient by what a row shares: exact, with one division for the row."""
    if divisor.dtype is not Dtype.FLOAT32 or not _is_still_along_row(divisor, dividend):
        return None
    scale = builder.apply(ScalarOp.DIVISOR_SCALE, Dtype.FLOAT32, "scale", divisor)
    scaled = builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "divisor", divisor, scale)
    one = builder.number(1.0, Dtype.FLOAT32)
    inverse = builder.apply(ScalarOp.DIVIDE, Dtype.FLOAT32, "inverse", one, scaled)
    part = builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "dividend", dividend, scale)
    return builder.apply(
        ScalarOp.DIVIDE_BY_RECIPROCAL, Dtype.FLOAT32, "ratio", part, scaled, inverse
    )


def _is_still_along_row(term: Expr, other: Expr) -> bool:
    return any(axis.name == "column" for axis in other.axes - term.axes)


def _doubled_sigmoid(builder: "Builder", term: Expr) -> Expr:
    """Return 1 + tanh(x) as 2 sigmoid(2 x)."""
    two = builder.number(2.0, Dtype.FLOAT32)
    factors = [*_factors(term), two]
    doubled = _with_one_number(builder, factors) or builder.apply(
        ScalarOp.MULTIPLY, Dtype.FLOAT32, "doubled", term, two
    )
    share = builder.apply(ScalarOp.SIGMOID, Dtype.FLOAT32, "share", doubled, is_fast=True)
    return builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "sum", share, two)


def _with_one_number(builder: "Builder", factors: Sequence[Expr]) -> Expr | None:
    """Return the product of factors of which several are numbers; None where at most one is."""
    numbers = [_value(f) for f in factors if isinstance(f, Literal)]
    others = [f for f in factors if not isinstance(f, Literal)]
    total = np.prod(np.asarray(numbers, np.float32))
    if len(numbers) < 2 or not others or not np.isfinite(total):
        return None
    result = others[0]
    for factor in [*others[1:], builder.number(float(total), Dtype.FLOAT32)]:
        result = builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "product", result, factor)
    return result


def _factors(term: Expr) -> list[Expr]:
    match term:
        case Apply(op=ScalarOp.MULTIPLY, arguments=(left, right)):
            return [*_factors(left), *_factors(right)]
    return [term]


def _is_divisor(text: str) -> bool:
    return text[-1:] == "f" and float(text[:-1]) != 0


def _value(term: Expr) -> float:
    text = text_of(term)
    return float(text[:-1]) if text[-1] == "f" else float(text.replace("INFINITY", "inf"))
