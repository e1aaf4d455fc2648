"""Looking at a graph as a person does: past views and casts, at products and constants."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.ir.graph import Attribute, Graph, Node, TensorType, ValueId
from kernelwright.ir.match.graph_source import GraphSource
from kernelwright.ir.match.placement import (
    Placement,
    Rows,
    broadcast_placement,
    in_order,
    placed,
)
from kernelwright.ir.match.plain_form import plain_form
from kernelwright.ir.match.row_map import RowMaps
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

SPREADING = frozenset({"broadcast", "reshape"})
_TRANSPARENT = SPREADING | {"cast"}
_MOVED = frozenset({"slice", "transpose"})
_MOST_STEPS = 8
"""Elementwise ops between what a row is reduced to and where it is repeated."""

Parameter = int | float | str | tuple[int, ...]


@dataclass(frozen=True)
class Match:
    """What a matcher found at a value: a name, the operands by role, the parameters."""

    name: str
    operands: Mapping[str, ValueId]
    parameters: Mapping[str, Parameter]


@dataclass(frozen=True)
class Product:
    """A value as `scale * numerators / denominators`, views and casts aside."""

    numerators: tuple[ValueId, ...]
    denominators: tuple[ValueId, ...]
    scale: float

    def without(self, *values: ValueId) -> "Product | None":
        """Remove numerators, each once; None when one is not there."""
        left = list(self.numerators)
        for value in values:
            if value not in left:
                return None
            left.remove(value)
        return Product(tuple(left), self.denominators, self.scale)

    def times(self, other: "Product") -> "Product":
        """Multiply two products."""
        return Product(
            self.numerators + other.numerators,
            self.denominators + other.denominators,
            self.scale * other.scale,
        )

    def less(self, factor: ValueId) -> "Product":
        """Remove a factor once, from above or from below."""
        if factor in self.numerators:
            found = self.without(factor)
            assert found is not None
            return found
        below = list(self.denominators)
        below.remove(factor)
        return Product(self.numerators, tuple(below), self.scale)


class Reader:
    """Reads one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plain = GraphSource(graph)
        self._first: dict[tuple[str, tuple[tuple[str, Attribute], ...], ValueId], ValueId] = {}
        self._repeated: dict[tuple[ValueId, Placement], ValueId] = {}
        self._bases: dict[ValueId, ValueId] = {}
        self._placed: dict[ValueId, tuple[ValueId, Placement]] = {}
        self._nodes: dict[ValueId, Node | None] = {}

    @cached_property
    def maps(self) -> RowMaps:
        """What each element of a row is made of."""
        return RowMaps(self.graph, self.plain, self)

    def base(self, value: ValueId) -> ValueId:
        """Return what a value is, before reshapes and casts that keep its numbers.

        Every reader has its own broadcasts, slices and transposes; of equal ones the first stands
        for all. Broadcasts are equal that repeat the same elements in the same order.
        """
        if value not in self._bases:
            self._bases[value] = self._base(value)
        return self._bases[value]

    def _base(self, value: ValueId) -> ValueId:
        root, places = self._place(value)
        if places != in_order(self.graph.types[root].size):
            return self._repeated.setdefault((self._first_of(root), places), value)
        return self._first_of(root)

    def root(self, value: ValueId) -> ValueId:
        """Return what a value is, before what repeats it, too."""
        return self._first_of(self._place(value)[0])

    def repeats_of(self, value: ValueId) -> Placement:
        """Return which elements, in which order, a value has of what it is before views."""
        return self._place(value)[1]

    def operand(self, value: ValueId) -> ValueId:
        """Return an operand before a broadcast that follows from both shapes, as NumPy's does."""
        root, places = self._place(value)
        before, after = self.shape(root), self.shape(value)
        is_plain = len(before) <= len(after) and places == broadcast_placement(before, after)
        return self._first_of(root) if is_plain else self.base(value)

    def vector(self, value: ValueId, rows: Rows) -> ValueId:
        """Return an operand before a broadcast that repeats it for each row."""
        root, places = self._place(value)
        before = [n if axis in rows.axes else 1 for axis, n in enumerate(rows.shape)]
        is_along = places == broadcast_placement(before, rows.shape)
        return self._first_of(root) if is_along else self.base(value)

    def node(self, value: ValueId) -> Node | None:
        """Return the node that makes a value, before views and casts, in its plain form."""
        base = self.base(value)
        if base not in self._nodes:
            made = self._producer(base)
            self._nodes[base] = None if made is None else plain_form(self, made)
        return self._nodes[base]

    def row(self, value: ValueId) -> ValueId | None:
        """Return one element a row where a value repeats it along the row that it was made of."""
        root, places = self._place(value)
        is_single = self.graph.types[root].size == 1
        if is_single or places == in_order(self.graph.types[root].size):
            return self._first_of(root)
        reduced = self.reduced(root)
        return self._first_of(root) if reduced and places == reduced.placement else None

    def number(self, value: ValueId) -> float | None:
        """Return the number that a value holds everywhere, if it is known."""
        return self.constant(value)

    def call(self, node: Node) -> Call:
        """Return a node's attributes and types."""
        return Call.of(self.graph, node)

    def type(self, value: ValueId) -> TensorType:
        """Return the shape and dtype of a value."""
        return self.graph.types[value]

    def made_by(self, value: ValueId, *ops: str) -> Node | None:
        """Return the node that makes a value, if it is one of `ops`."""
        node = self.node(value)
        return node if node is not None and node.op in ops else None

    def operands(self, node: Node) -> tuple[ValueId, ...]:
        """Return what a node reads, before views and casts."""
        return tuple(self.base(v) for v in node.inputs)

    def constant(self, value: ValueId) -> float | None:
        """Return the number that a value holds everywhere, if it is known."""
        found = self.graph.constant_of.get(self.root(value))
        return None if found is None else found.number

    def is_near(self, value: ValueId, number: float) -> bool:
        """Say whether a value is a constant that equals `number` to half precision."""
        found = self.constant(value)
        return found is not None and math.isclose(found, number, rel_tol=4e-3)

    def plus_constant(self, value: ValueId) -> tuple[ValueId, float] | None:
        """Read a value as `other + constant`."""
        node = self.made_by(value, "add")
        if node is None:
            return None
        left, right = self.operands(node)
        constant = self.constant(right)
        return (left, constant) if constant is not None else None

    def product(self, value: ValueId, whole: ValueId | None = None) -> Product:
        """Read a value as a product, as far as multiplications and divisions reach.

        `whole` is a factor to keep in one piece, though it may be a product itself.
        """
        value = self.base(value)
        if value == whole:
            return Product((value,), (), 1.0)
        constant = self.constant(value)
        if constant is not None:
            return Product((), (), constant)
        row = self.row(value)
        node = self.made_by(value if row is None else row, "multiply", "divide", "power")
        if node is None or (node.op == "power" and self.constant(node.inputs[1]) != -1.0):
            return Product((value,), (), 1.0)
        if node.op == "power":
            below = self.product(node.inputs[0], whole)
            scale = 1.0 / below.scale if below.scale else math.inf
            return Product(below.denominators, below.numerators, scale)
        left, right = (self.product(v, whole) for v in node.inputs)
        if node.op == "multiply":
            return left.times(right)
        return Product(
            left.numerators + right.denominators,
            left.denominators + right.numerators,
            left.scale / right.scale if right.scale else math.inf,
        )

    def covered(self, output: ValueId, operands: Sequence[ValueId]) -> tuple[int, ...]:
        """List the nodes between operands and output.

        The operands' makers are not among them, nor casts of operands that others read too.
        """
        stop, found = set(operands), set[int]()
        frontier = [output]
        while frontier:
            value = frontier.pop()
            index = self.graph.producer_of.get(value)
            if index is None or index in found or value in stop:
                continue
            if self.base(value) in stop and self.graph.nodes[index].op not in _TRANSPARENT:
                # Another reader's copy of an operand.
                continue
            found.add(index)
            frontier.extend(self.graph.nodes[index].inputs)
        return tuple(i for i in sorted(found) if not self._is_shared_cast(i, found, stop))

    def _is_shared_cast(self, index: int, found: set[int], stop: set[ValueId]) -> bool:
        node = self.graph.nodes[index]
        if node.op != "cast" or self.base(node.outputs[0]) not in stop:
            return False
        return any(reader not in found for reader in self.graph.consumers_of[node.outputs[0]])

    def shape(self, value: ValueId) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.graph.types[value].shape

    def _place(self, value: ValueId) -> tuple[ValueId, Placement]:
        if value not in self._placed:
            self._placed[value] = placed(self.plain, value, through_casts=True)
        return self._placed[value]

    def _first_of(self, value: ValueId) -> ValueId:
        node = self._producer(value)
        if node is None or node.op not in _MOVED:
            return value
        key = (node.op, node.attributes, self.base(node.inputs[0]))
        return self._first.setdefault(key, value)

    def reduced(self, value: ValueId, left: int = _MOST_STEPS) -> Rows | None:
        """Return the rows of which a value has one element each."""
        node = self._producer(self.base(value))
        if node is None or not left:
            return None
        kind, call = op_named(node.op).kind, self.call(node)
        if kind is Kind.REDUCTION and call.outputs[0].size < call.inputs[0].size:
            return Rows(call.inputs[0].shape, reduced_axes(call))
        if node.op == "matmul" and (call.inputs[0].shape[-2], call.inputs[1].shape[-1]) == (1, 1):
            return Rows(call.inputs[0].shape, (len(call.inputs[0].shape) - 1,))
        if kind is not Kind.ELEMENTWISE:
            return None
        found = (self.reduced(v, left - 1) for v in node.inputs)
        return next((reduced for reduced in found if reduced is not None), None)

    def _producer(self, value: ValueId) -> Node | None:
        index = self.graph.producer_of.get(value)
        return None if index is None else self.graph.nodes[index]
