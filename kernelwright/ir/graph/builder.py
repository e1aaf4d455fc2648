"""Building a graph node by node, with equal nodes made once."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kernelwright.ir.graph import Attribute, Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.sighting import Labels, Sighting
from kernelwright.ir.ops import OPS, Call, Kind, op_named

_OPAQUE = frozenset({"custom_kernel"})

Key = tuple[str, tuple[ValueId, ...], tuple[tuple[str, Attribute], ...], tuple[TensorType, ...]]


class GraphBuilder:
    """Collects values and nodes; `finish` returns the graph.

    With `merge`, a node equal to an earlier one is not made again: its values are reused.
    Ops whose attributes MLX does not report in full are never merged.
    """

    def __init__(self, *, merge: bool = False) -> None:
        self.types: list[TensorType] = []
        self.nodes: list[Node] = []
        self._merge = merge
        self._made: dict[Key, tuple[ValueId, ...]] = {}
        self._producer: dict[ValueId, Node] = {}
        self._depth: dict[ValueId, int] = {}
        self._constants: dict[ValueId, Constant] = {}
        self._constant_values: dict[Constant | int, ValueId] = {}

    def value(self, type_: TensorType) -> ValueId:
        """Number a new value."""
        self.types.append(type_)
        return len(self.types) - 1

    def constant(self, constant: Constant) -> ValueId:
        """Return the value of a constant; equal numbers share one.

        Arrays that are equal now, such as two norms' weights before training, stay apart: a kernel
        that reads both as one could serve neither once they differ.
        """
        key = constant if constant.type.size == 1 else id(constant.data)
        found = self._constant_values.get(key)
        if found is None:
            found = self.value(constant.type)
            self._constant_values[key] = found
            self._constants[found] = constant
        return found

    def add(
        self,
        op: str,
        inputs: Sequence[ValueId],
        outputs: Sequence[TensorType],
        attributes: Iterable[tuple[str, Attribute]] = (),
    ) -> tuple[ValueId, ...]:
        """Append a node and return its values, or those of an equal one."""
        # The types belong to it: a range's dtype is no attribute.
        key = (op, tuple(inputs), tuple(attributes), tuple(outputs))
        if self._merge and key in self._made:
            return self._made[key]
        values = tuple(self.value(t) for t in outputs)
        node = Node(op, key[1], values, key[2])
        self.nodes.append(node)
        self._producer.update(dict.fromkeys(values, node))
        below = max((self.depth(v) for v in node.inputs), default=0)
        is_work = op_named(op).kind is not Kind.VIEW
        self._depth.update(dict.fromkeys(values, below + is_work if below >= 0 else below))
        if op in OPS and op not in _OPAQUE:
            self._made[key] = values
        return values

    def apply(self, op: str, *inputs: ValueId, **attributes: Attribute) -> ValueId:
        """Append an op of one output, with its shape inferred and its first input's dtype."""
        types = tuple(self.types[v] for v in inputs)
        shape = op_named(op).shapes(Call(attributes, types, types[:1]))[0]
        dtype = types[0].dtype
        return self.add(op, inputs, [TensorType(shape, dtype)], tuple(attributes.items()))[0]

    def producer(self, value: ValueId) -> Node | None:
        """Return the node that makes a value; None for inputs and constants."""
        return self._producer.get(value)

    def made_by(self, value: ValueId, op: str) -> Node | None:
        """Return the node that makes a value when it is one of the named op."""
        node = self._producer.get(value)
        return node if node is not None and node.op == op else None

    def depth(self, value: ValueId) -> int:
        """Count the ops on the longest way to a value, views aside; -1 for constants."""
        return -1 if value in self._constants else self._depth.get(value, 0)

    def constant_at(self, value: ValueId) -> Constant | None:
        """Return the constant that a value holds, if it is one."""
        return self._constants.get(value)

    def finish(
        self,
        inputs: Sequence[ValueId],
        outputs: Sequence[ValueId],
        like: Graph,
        labels: Labels = (),
    ) -> Graph:
        """Return the graph, live nodes and constants only, with the names of `like`."""
        live = set(outputs)
        nodes = []
        for node in reversed(self.nodes):
            if live.intersection(node.outputs):
                live.update(node.inputs)
                nodes.append(node)
        return _renumbered(
            self.types,
            inputs,
            [(v, c) for v, c in self._constants.items() if v in live],
            nodes[::-1],
            outputs,
            like,
            [(self._live_base(value, live), seen) for value, seen in labels],
        )

    def _live_base(self, value: ValueId, live: set[ValueId]) -> ValueId:
        """Return the value that a dead view shows: it keeps the name of what it is a view of."""
        while value not in live and (node := self._producer.get(value)) is not None:
            if op_named(node.op).kind is not Kind.VIEW and node.op != "cast":
                break
            value = node.inputs[0]
        return value


def moved_labels(graph: Graph, number: Mapping[ValueId, ValueId]) -> Labels:
    """Return a graph's labels on the values that stand for its own now."""
    return _joined((number[v], seen) for v, seen in graph.labels if v in number)


def _joined(labels: Iterable[tuple[ValueId, tuple[Sighting, ...]]]) -> Labels:
    """Return labels with the sightings of each value together, each once."""
    found: dict[ValueId, tuple[Sighting, ...]] = {}
    for value, seen in labels:
        found[value] = tuple(dict.fromkeys((*found.get(value, ()), *seen)))
    return tuple(found.items())


def _renumbered(
    types: Sequence[TensorType],
    inputs: Sequence[ValueId],
    constants: Sequence[tuple[ValueId, Constant]],
    nodes: Sequence[Node],
    outputs: Sequence[ValueId],
    like: Graph,
    labels: Sequence[tuple[ValueId, tuple[Sighting, ...]]],
) -> Graph:
    order = [*inputs, *(v for v, _ in constants), *(v for n in nodes for v in n.outputs)]
    number = {value: i for i, value in enumerate(order)}
    return Graph(
        types=tuple(types[v] for v in order),
        inputs=tuple(number[v] for v in inputs),
        constants=tuple((number[v], c) for v, c in constants),
        nodes=tuple(
            Node(
                node.op,
                tuple(number[v] for v in node.inputs),
                tuple(number[v] for v in node.outputs),
                node.attributes,
            )
            for node in nodes
        ),
        outputs=tuple(number[v] for v in outputs),
        keywords=like.keywords,
        names=like.names,
        results=like.results,
        labels=_joined((number[v], seen) for v, seen in labels if v in number),
    )


Rule = Callable[[GraphBuilder, Node, Call], Sequence[ValueId] | None]
"""Sees a node over the new graph's values; returns what to use instead, or None to keep it."""


Writer = Callable[[GraphBuilder, int, Mapping[ValueId, ValueId]], Sequence[ValueId]]
"""Writes the node at an index anew, over what stands for the values of the old graph."""


def rewrite(graph: Graph, rules: Sequence[Rule], *, merge: bool = False) -> Graph:
    """Rebuild a graph in one forward sweep, offering every node to each rule in turn."""

    def write(
        builder: GraphBuilder, index: int, number: Mapping[ValueId, ValueId]
    ) -> Sequence[ValueId]:
        node = graph.nodes[index]
        moved = Node(node.op, tuple(number[v] for v in node.inputs), (), node.attributes)
        call = Call.of(graph, node)
        for rule in rules:
            made = rule(builder, moved, call)
            if made is not None:
                return made
        return builder.add(node.op, moved.inputs, call.outputs, node.attributes)

    return rebuild(graph, write, merge=merge)


def rebuild(graph: Graph, write: Writer, *, merge: bool = False) -> Graph:
    """Write every node of a graph anew, in one forward sweep."""
    builder = GraphBuilder(merge=merge)
    number: dict[ValueId, ValueId] = {}
    for value in graph.inputs:
        number[value] = builder.value(graph.types[value])
    for value, constant in graph.constants:
        number[value] = builder.constant(constant)
    for index, node in enumerate(graph.nodes):
        number.update(zip(node.outputs, write(builder, index, number), strict=True))
    inputs = [number[v] for v in graph.inputs]
    outputs = [number[v] for v in graph.outputs]
    return builder.finish(inputs, outputs, graph, moved_labels(graph, number))
