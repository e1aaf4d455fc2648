"""Reading an expression as a polynomial of one value."""

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.pattern import Source

Terms = dict[int, float]
"""A coefficient for each power."""
POLYNOMIAL = frozenset({"add", "subtract", "negative", "multiply", "divide", "square", "power"})
_HIGHEST = 3


def polynomial(source: Source, value: ValueId, x: ValueId, depth: int = 8) -> Terms | None:
    """Return the polynomial of x that a value is; None where it is none, or of a high degree."""
    if source.base(value) == x:
        return {1: 1.0}
    if (held := source.number(value)) is not None:
        return {0: held}
    node = source.node(value)
    if node is None or not depth or node.op not in POLYNOMIAL:
        return None
    read = [polynomial(source, v, x, depth - 1) for v in node.inputs]
    known = [terms for terms in read if terms is not None]
    return _combined(node, known) if len(known) == len(read) else None


def _combined(node: Node, terms: list[Terms]) -> Terms | None:
    match node.op, terms:
        case "add" | "subtract", [a, b]:
            sign = -1.0 if node.op == "subtract" else 1.0
            total = {p: a.get(p, 0.0) + sign * b.get(p, 0.0) for p in a.keys() | b.keys()}
            return {p: c for p, c in total.items() if c}
        case "negative", [a]:
            return {p: -c for p, c in a.items()}
        case "multiply", [a, b]:
            return _product(a, b)
        case "divide", [a, b] if set(b) == {0} and b[0]:
            return {p: c / b[0] for p, c in a.items()}
        case "square", [a]:
            return _product(a, a)
        case "power", [a, b] if b in ({0: 2.0}, {0: 3.0}):
            squared = _product(a, a)
            return squared if b[0] == 2.0 or squared is None else _product(squared, a)
    return None


def _product(a: Terms, b: Terms) -> Terms | None:
    result: Terms = {}
    for p, c in a.items():
        for q, d in b.items():
            result[p + q] = result.get(p + q, 0.0) + c * d
    return result if max(result, default=0) <= _HIGHEST else None
