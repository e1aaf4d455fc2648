"""Which integers a task tells apart: lengths and offsets by positions, segments by each other."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, exact_dtype, op_named

_EQUALITIES = ("equal", "not_equal")
_ARITHMETIC = ("add", "subtract", "multiply")
_FEWEST_POSITIONS = 3
"""Of two numbers or one, an input takes those themselves and their like on both sides."""
_MOST_KNOWN = 1 << 20
"""Numbers are worked out that fit some megabytes."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A value that is an input times `factor`, plus something from `low` to `high`."""

    value: ValueId
    factor: float = 1.0
    low: float = 0.0
    high: float = 0.0

    def times(self, value: ValueId, factor: float) -> "_Moved":
        """Return this value multiplied by a number other than zero."""
        low, high = sorted((factor * self.low, factor * self.high))
        return _Moved(value, factor * self.factor, low, high)

    def plus(self, value: ValueId, low: float, high: float) -> "_Moved":
        """Return this value with a number from `low` to `high` added."""
        return _Moved(value, self.factor, self.low + low, self.high + high)

    def meets(self, least: float, greatest: float) -> tuple[float, float]:
        """Return from where to where the input makes it one of the numbers between two."""
        ends = (least - self.high) / self.factor, (greatest - self.low) / self.factor
        return min(ends), max(ends)


def span_of(graph: Graph, value: ValueId) -> tuple[int, int] | None:
    """Return the least and the greatest integer that meets one of many numbers in a comparison.

    Positions that an offset is added to move them apart; beyond the two all integers are alike.
    """
    ends: list[tuple[float, float]] = []
    for node, place, moved in _readings(graph, value):
        known = known_numbers(graph, node.inputs[1 - place]) if compares(node) else None
        if known is None or np.unique(known).size < _FEWEST_POSITIONS:
            continue
        ends.append(moved.meets(float(known.min()), float(known.max())))
    finite = [pair for pair in ends if np.isfinite(pair).all()]
    if not finite:
        return None
    return math.floor(min(low for low, _ in finite)), math.ceil(max(high for _, high in finite))


def is_matched(graph: Graph, value: ValueId) -> bool:
    """Say whether an integer is held against others for equality that inputs decide."""
    return any(
        node.op in _EQUALITIES and known_numbers(graph, node.inputs[1 - place]) is None
        for node, place, _ in _readings(graph, value)
    )


def known_numbers(graph: Graph, value: ValueId) -> NDArray[np.generic] | None:
    """Return the numbers that a value may hold whatever the inputs are, in no order.

    None where they hang on an input, or are too many.
    """
    constant = graph.constant_of.get(value)
    if constant is not None:
        return constant.array
    producer = graph.producer_of.get(value)
    if producer is None:
        return None
    node = graph.nodes[producer]
    if only_moves(node):
        return known_numbers(graph, node.inputs[0])
    op = op_named(node.op)
    is_function = op.kind is Kind.ELEMENTWISE and len(node.outputs) == 1
    if op.meaning is None or not (is_function or node.op == "arange"):
        return None
    read = [known_numbers(graph, v) for v in node.inputs]
    known = [
        np.unique(a).astype(exact_dtype(graph.types[v].dtype))
        for a, v in zip(read, node.inputs, strict=True)
        if a is not None and a.size <= _MOST_KNOWN
    ]
    if len(known) < len(read) or math.prod(a.size for a in known) > _MOST_KNOWN:
        return None
    # Each with each: who meets whom is not asked.
    with np.errstate(all="ignore"):
        made = op.meaning(Call.of(graph, node), *np.ix_(*known))
    return np.asarray(made).reshape(-1)


def only_moves(node: Node) -> bool:
    """Say whether a node passes elements on, converted at most."""
    return node.op == "cast" or op_named(node.op).kind is Kind.VIEW


def compares(node: Node) -> bool:
    """Say whether a node tells how two numbers lie to each other."""
    return op_named(node.op).behaviour.compares


def _readings(graph: Graph, value: ValueId) -> Iterator[tuple[Node, int, _Moved]]:
    """Yield who reads an input, with the place among what it reads, and what became of it."""
    waiting, seen = [_Moved(value)], {value}
    while waiting:
        moved = waiting.pop()
        for index in graph.consumers_of[moved.value]:
            node = graph.nodes[index]
            for place in (i for i, operand in enumerate(node.inputs) if operand == moved.value):
                yield node, place, moved
                further = _further(graph, node, place, moved)
                if further is not None and further.value not in seen:
                    seen.add(further.value)
                    waiting.append(further)


def _further(graph: Graph, node: Node, place: int, moved: _Moved) -> _Moved | None:
    """Follow an input through what moves or bounds it, and what it does with known numbers."""
    made = node.outputs[0]
    bounds = op_named(node.op).behaviour.picks and len(node.inputs) > 1
    if only_moves(node) or (bounds and not (node.op == "select" and place == 0)):
        return moved.plus(made, 0, 0)
    if node.op == "negative":
        return moved.times(made, -1)
    known = known_numbers(graph, node.inputs[1 - place]) if node.op in _ARITHMETIC else None
    if known is None or not known.size:
        return None
    least, greatest = float(known.min()), float(known.max())
    match node.op:
        case "multiply":
            return moved.times(made, least) if least == greatest != 0 else None
        case "subtract" if place == 0:
            return moved.plus(made, -greatest, -least)
        case "subtract":
            return moved.times(made, -1).plus(made, least, greatest)
        case _:
            return moved.plus(made, least, greatest)
