"""One op for several ways to write it: differences, opposites, choices and logistic functions."""

import math
from collections.abc import Iterator

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.activation import ONE_AND_POWER, STABLE_LOGISTIC, X
from kernelwright.ir.match.pattern import Either, Made, Number, Source, match_node
from kernelwright.ir.match.row import inverse_of

_ROUNDED = 1e-6
"""How far people round the logarithm of two."""
_POWER = Made(("exp",), (X,))
_LOGISTIC = Either(
    (
        *inverse_of(ONE_AND_POWER).patterns,
        Made(("divide",), (_POWER, Made(("add",), (_POWER, Number(1.0))))),
    )
)


def plain_form(source: Source, node: Node) -> Node:
    """Return the node that people would have written shortest; what it reads is in the graph.

    Operands may lack the broadcast that stood between, as where one element a row is opposed.
    """
    match node.op:
        case "add":
            return _sum(source, node)
        case "subtract":
            return _difference(source, node)
        case "negative":
            inner = source.node(node.inputs[0])
            if inner is not None and inner.op == "subtract":
                return Node("subtract", inner.inputs[::-1], node.outputs)
        case "select":
            return _choice(source, node)
        case "power" if (power := _natural_power(source, node)) is not None:
            return power
        case "divide" | "power":
            if (found := match_node(source, _LOGISTIC, node)) is not None:
                return Node("sigmoid", (found.values["x"],), node.outputs)
    return node


def _natural_power(source: Source, node: Node) -> Node | None:
    """Read a power of e, or of another number whose exponent is divided by its logarithm."""
    base = source.number(node.inputs[0])
    if base is None or base <= 0.0:
        return None
    exponent, rate = node.inputs[1], math.log(base)
    made = source.node(exponent)
    scales = (1.0, exponent), *_scaled(source, made)
    for scale, x in scales:
        if math.isclose(scale * rate, 1.0, rel_tol=_ROUNDED):
            return Node("exp", (x,), node.outputs)
    return None


def _scaled(source: Source, made: Node | None) -> Iterator[tuple[float, ValueId]]:
    """Yield what is multiplied by a number, or divided by one, with the number."""
    if made is None or made.op not in ("multiply", "divide"):
        return
    x, by = made.inputs
    number = source.number(by)
    if number:
        yield (number if made.op == "multiply" else 1.0 / number), x


def _sum(source: Source, node: Node) -> Node:
    for kept, other in (node.inputs, node.inputs[::-1]):
        if (opposed := _opposite(source, other)) is not None:
            return Node("subtract", (kept, opposed), node.outputs)
    return node


def _difference(source: Source, node: Node) -> Node:
    first, second = node.inputs
    if source.number(first) == 0.0:
        return Node("negative", (second,), node.outputs)
    opposed = _opposite(source, second)
    return node if opposed is None else Node("add", (first, opposed), node.outputs)


def _opposite(source: Source, value: ValueId) -> ValueId | None:
    """Return what a value, or the one element of each row that it repeats, is the opposite of."""
    row = source.row(value)
    for one in (value, *(() if row is None else (row,))):
        node = source.node(one)
        if node is not None and node.op == "negative":
            return node.inputs[0]
    return None


def _choice(source: Source, node: Node) -> Node:
    """Swap what is chosen by a denial; of two ways to compute one thing, either is chosen."""
    if (found := match_node(source, STABLE_LOGISTIC, node)) is not None:
        return Node("sigmoid", (found.values["x"],), node.outputs)
    shown, *others = node.inputs
    denied = source.node(shown)
    if denied is not None and denied.op == "logical_not":
        return Node("select", (denied.inputs[0], *others[::-1]), node.outputs)
    one, other = map(source.node, others)
    if one is None or other is None or (one.op, one.attributes) != (other.op, other.attributes):
        return node
    is_same = [*map(source.base, one.inputs)] == [*map(source.base, other.inputs)]
    return Node(one.op, one.inputs, node.outputs, one.attributes) if is_same else node
