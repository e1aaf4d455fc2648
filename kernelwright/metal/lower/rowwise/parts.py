"""Rows whose halves meet, as in rope: a lane takes an element of every part at a time."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.kernel_ir.expression import Expr, Reducer, Store, Switch, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.term.reduction import folded
from kernelwright.metal.lower.term.view import Coordinates

MOST_PARTS = 4
_JOINED = {
    Reducer.SUM: "add",
    Reducer.PRODUCT: "multiply",
    Reducer.MAXIMUM: "maximum",
    Reducer.MINIMUM: "minimum",
}
"""How the elements of a row's parts become one, before lanes reduce them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How rows of `length` are cut: side by side, or element by element in turn."""

    count: int
    length: int
    in_turn: bool

    def place(self, part: int) -> Index:
        """Return where the element of a part stands that a lane visits."""
        column = Index.of(Axis(REDUCED_AXIS, self.length // self.count))
        if self.in_turn:
            return column * self.count + part
        return column + part * (self.length // self.count)


def parts_of(graph: Graph, length: int) -> Parts | None:
    """Return the parts of which a graph puts rows of `length` together, if they are equal and few.

    Reductions have to be such that elements of all parts can be joined first.
    """
    ops = [op_named(node.op) for node in graph.nodes]
    if any(op.kind is Kind.REDUCTION and not op.joined_by for op in ops):
        return None
    joined = [node for node in graph.nodes if node.op == "concatenate"]
    found = {p for node in joined if (p := _joined_parts(graph, node, length)) is not None}
    parts = found.pop() if len(found) == 1 else None
    return parts if parts and 1 < parts.count <= min(MOST_PARTS, length - 1) else None


def _joined_parts(graph: Graph, node: Node, length: int) -> Parts | None:
    shape = graph.types[node.outputs[0]].shape
    if Call.of(graph, node).integer("axis") != len(shape) - 1:
        return None
    sizes = [graph.types[v].shape[-1] for v in node.inputs]
    if shape[-1] == length:
        return Parts(length // math.gcd(*sizes), length, in_turn=False)
    is_turn = set(sizes) == {1} and length % len(sizes) == 0
    return Parts(len(sizes), length, in_turn=True) if is_turn else None


def is_straight(stores: Sequence[Store]) -> bool:
    """Say whether no element chooses between parts any more."""
    terms = walk([s.value for s in stores])
    chosen = [a for t in terms if isinstance(t, Switch) for a in t.place.axes]
    return all(axis.name != REDUCED_AXIS for axis in chosen)


@dataclass
class PartBuilder(Builder):
    """Builds elements of rows that are walked part by part at once."""

    parts: Parts = Parts(1, 1, in_turn=False)
    _part: int = 0

    def reduced_axis(self, length: int) -> tuple[Index, Axis]:
        """Return the place in a row of the part's element, and the axis of all its elements."""
        if length != self.parts.length:
            return super().reduced_axis(length)
        return self.parts.place(self._part), Axis(REDUCED_AXIS, length // self.parts.count)

    def visited(
        self, reducer: Reducer, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Expr, Axis]:
        """Return the elements of all parts, joined, and the axis that they are reduced over."""
        bodies: list[Expr] = []
        for part in range(self.parts.count):
            self._part = part
            body, axis = self.along(source, axes, places)
            bodies.append(body)
        self._part = 0
        if axis.extent == math.prod(self.graph.types[source].shape[a] for a in axes):
            return bodies[0], axis
        return folded(self, _JOINED[reducer], bodies), axis


def places_of(parts: Parts) -> Iterable[Index]:
    """Return the places in a row that a lane writes at a time."""
    return [parts.place(part) for part in range(parts.count)]
