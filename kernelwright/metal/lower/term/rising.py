"""Largest and smallest values of a rising function: its value where the argument is so."""

import math
from typing import TYPE_CHECKING

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Apply, Expr, Literal
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder

_OF_NUMBERS = frozenset({"expm1", "tanh", "sigmoid", "erf", "arctan", "arcsinh"})
_FROM_ZERO = frozenset({"log", "log2", "log10", "log1p", "sqrt"})
"""Functions that would hide a NaN: of several arguments below zero only the largest is asked."""
_NEVER_NEGATIVE = frozenset({"abs", "square", "exp", "sigmoid", "sqrt", "relu"})
_NEEDS_THE_ELEMENTS = frozenset({"exp", "softmax", "logsumexp"})
"""Ops that find a sum with the largest element, for which both are of one term."""


def lifted(builder: "Builder", body: Expr) -> tuple[list[Apply], Expr]:
    """Return the rising functions that a body applies, outermost first, and what they apply to.

    None of them where that spares no function of each element.
    """
    if any(node.op in _NEEDS_THE_ELEMENTS for node in builder.graph.nodes):
        return [], body
    steps, inner = list[Apply](), body
    while isinstance(inner, Apply) and inner.dtype is Dtype.FLOAT32:
        argument = _risen(inner)
        if argument is None:
            break
        steps.append(inner)
        inner = argument
    spares = any(step.op in _OF_NUMBERS | _FROM_ZERO for step in steps)
    return (steps, inner) if spares else ([], body)


def applied(builder: "Builder", steps: list[Apply], value: Expr) -> Expr:
    """Return a value with functions applied, the last of them first."""
    for step in reversed(steps):
        argument = _risen(step)
        operands = [value if a is argument else a for a in step.arguments]
        value = builder.apply(step.op, step.dtype, step.name, *operands, is_fast=step.is_fast)
    return value


def _risen(term: Apply) -> Expr | None:
    """Return the argument with which a term rises, None where it may fall."""
    if len(term.arguments) == 1:
        (argument,) = term.arguments
        is_rising = term.op in _OF_NUMBERS or term.op == "relu"
        is_rising |= term.op in _FROM_ZERO and _is_never_negative(argument)
        return argument if is_rising and argument.dtype is Dtype.FLOAT32 else None
    if len(term.arguments) != 2:
        return None
    left, right = term.arguments
    if isinstance(left, Literal) and term.op in (
        ScalarOp.ADD,
        ScalarOp.MULTIPLY,
        ScalarOp.MAXIMUM,
        ScalarOp.MINIMUM,
    ):
        left, right = right, left
    number = _number(right)
    if number is None or isinstance(left, Literal) or left.dtype is not Dtype.FLOAT32:
        return None
    if term.op in (ScalarOp.MULTIPLY, ScalarOp.DIVIDE):
        return left if number > 0 else None
    is_moved = term.op in (ScalarOp.ADD, ScalarOp.SUBTRACT, ScalarOp.MAXIMUM, ScalarOp.MINIMUM)
    return left if is_moved else None


def _is_never_negative(term: Expr) -> bool:
    if not isinstance(term, Apply):
        return False
    if term.op in _NEVER_NEGATIVE:
        return True
    numbers = [number for a in term.arguments if (number := _number(a)) is not None]
    if term.op == ScalarOp.MAXIMUM:
        return any(number >= 0 for number in numbers)
    if term.op == ScalarOp.ADD and numbers and numbers[0] >= 0:
        return any(_is_never_negative(a) for a in term.arguments)
    return False


def _number(term: Expr) -> float | None:
    """Return a finite number that a term is."""
    if not isinstance(term, Literal) or term.text[-1:] != "f":
        return None
    number = float(term.text[:-1])
    return number if math.isfinite(number) else None
