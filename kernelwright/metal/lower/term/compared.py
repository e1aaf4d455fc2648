"""Products that a row's extremum is found of: the same number wherever they are written again."""

import math

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.kernel_ir.expression import Expr, Literal, Load
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp

_COMPARING = frozenset({"max", "min", "softmax", "logsumexp"})
_PRODUCTS = {"multiply": ScalarOp.ROUNDED_MULTIPLY, "square": ScalarOp.ROUNDED_SQUARE}
_DIGITS = {Dtype.FLOAT16: 11, Dtype.BFLOAT16: 8}
_DIGITS_OF_FLOAT = 24


def compared_values(graph: Graph) -> frozenset[ValueId]:
    """Return the values whose elements a reduction compares, or a sign or a view away from them."""
    compared: set[ValueId] = set()
    for node in reversed(graph.nodes):
        moves = op_named(node.op).kind is Kind.VIEW or node.op == "negative"
        if node.op in _COMPARING or (moves and compared.intersection(node.outputs)):
            compared.update(node.inputs)
    return frozenset(compared)


def rounded_product(op: str, *factors: Expr) -> ScalarOp | None:
    """Return the op of a product that compilers may not make a part of what reads it.

    In `exp(x * w - maximum)` they fuse the product with the difference, where it keeps digits that
    the maximum has lost: the greatest element less the maximum would not be zero. A fused
    multiply-add that is there already rounds at once. None where no digit is lost anyway.
    """
    if op not in _PRODUCTS:
        return None
    digits = [_digits(factor) for factor in factors] * (2 // len(factors))
    return _PRODUCTS[op] if sum(digits) > _DIGITS_OF_FLOAT else None


def _digits(term: Expr) -> int:
    """Return how many binary digits a term's numbers have at most."""
    if isinstance(term, Load):
        return _DIGITS.get(term.stored, _DIGITS_OF_FLOAT)
    if isinstance(term, Literal):
        try:
            mantissa, _ = math.frexp(float(term.text.rstrip("fhu")))
        except ValueError:
            return _DIGITS_OF_FLOAT
        exact = (n for n in range(_DIGITS_OF_FLOAT) if (mantissa * 2**n).is_integer())
        return next(exact, _DIGITS_OF_FLOAT)
    return _DIGITS_OF_FLOAT
