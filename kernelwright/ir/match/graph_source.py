"""A graph as patterns see it that look through nothing by themselves."""

from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call

_SPREADING = frozenset({"broadcast", "reshape", "cast"})


@dataclass(frozen=True)
class GraphSource:
    """The values and nodes of one graph as they are."""

    graph: Graph

    def base(self, value: ValueId) -> ValueId:
        """Return the value itself."""
        return value

    def node(self, value: ValueId) -> Node | None:
        """Return the node that makes a value."""
        index = self.graph.producer_of.get(value)
        return None if index is None else self.graph.nodes[index]

    def row(self, value: ValueId) -> ValueId | None:
        """Return what is repeated along the last axis to become a value."""
        node = self.node(value)
        if node is None or node.op != "broadcast":
            return None
        source, shape = node.inputs[0], self.type(value).shape
        return source if self.type(source).shape == (*shape[:-1], 1) else None

    def number(self, value: ValueId) -> float | None:
        """Return the number that a value holds everywhere, if it is known."""
        while (node := self.node(value)) is not None and node.op in _SPREADING:
            value = node.inputs[0]
        found = self.graph.constant_of.get(value)
        return None if found is None else found.number

    def call(self, node: Node) -> Call:
        """Return a node's attributes and types."""
        return Call.of(self.graph, node)

    def type(self, value: ValueId) -> TensorType:
        """Return the shape and dtype of a value."""
        return self.graph.types[value]
