"""A graph as the steps that MLX runs, where it runs several for a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.kept import kept_with_graph
from kernelwright.ir.ops import Call, Kind, mean_divisor, op_named
from kernelwright.ir.passes.mean import scale_constant

Shape = tuple[int, ...]
_SORTS = {
    "sorted_slice": ("sort", "partition"),
    "argsorted_slice": ("argsort", "argpartition"),
}
"""What MLX orders a whole array for, to show a few ranks of it."""


@dataclass(frozen=True)
class Steps:
    """MLX's steps as a graph, and the node of the original that each is a step of."""

    graph: Graph
    node_of: Sequence[int]

    @cached_property
    def _steps_of(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for step, node in enumerate(self.node_of):
            found.setdefault(node, []).append(step)
        return found

    def among(self, indices: Iterable[int] | None) -> set[int]:
        """Return the steps of some nodes of the original; of all without `indices`."""
        if indices is None:
            return set(range(len(self.node_of)))
        if isinstance(self.node_of, range):
            return set(indices)
        return {step for node in indices for step in self._steps_of.get(node, ())}


def mlx_steps(graph: Graph) -> Steps:
    """Take means apart into the sum and the product that MLX launches, and place squeezes.

    Ranks are slices of a sorted array.

    A canonical graph drops the axes of a reduction behind the elementwise ops that follow it; MLX
    does so before them, where `mx.compile` fuses across.
    """
    return _apart(graph) or Steps(graph, range(len(graph.nodes)))


@kept_with_graph
def _apart(graph: Graph) -> "Steps | None":
    """Return the steps; None where every node is one."""
    if any(n.op == "mean" or n.op in _SORTS or _is_reshaped(graph, n) for n in graph.nodes):
        return _Writer(graph).steps()
    return None


def _is_reshaped(graph: Graph, node: Node) -> bool:
    return node.op == "reshape" and node.inputs[0] in graph.producer_of


class _Writer:
    """Writes the steps of a graph in its order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types, self._constants = list(graph.types), list(graph.constants)
        self._nodes: list[Node] = []
        self._node_of: list[int] = []
        self._shapes: dict[int, Shape] = {}
        """Of nodes that compute behind a squeeze, the shape that it leaves."""
        self._squeezes: set[int] = set()
        self._name: dict[ValueId, ValueId] = {}
        """Values that another one stands for."""

    def steps(self) -> Steps:
        for index, node in enumerate(self._graph.nodes):
            if node.op == "reshape" and (behind := _behind(self._graph, index)):
                self._shapes |= dict.fromkeys(behind, self._graph.types[node.outputs[0]].shape)
                self._squeezes.add(index)
                self._name[node.outputs[0]] = node.inputs[0]
        for index, node in enumerate(self._graph.nodes):
            if index not in self._squeezes:
                self._write(index, node)
        apart = replace(
            self._graph,
            types=tuple(self._types),
            constants=tuple(self._constants),
            nodes=tuple(self._nodes),
            outputs=tuple(self._name.get(v, v) for v in self._graph.outputs),
            labels=(),
        )
        return Steps(apart, tuple(self._node_of))

    def _write(self, index: int, node: Node) -> None:
        node = replace(node, inputs=tuple(self._name.get(v, v) for v in node.inputs))
        shape = self._shapes.get(index)
        if op_named(node.op).kind is Kind.REDUCTION and (shape is not None or node.op == "mean"):
            self._write_reduction(index, node, shape)
            return
        if shape is not None:
            for value in node.outputs:
                self._types[value] = replace(self._types[value], shape=shape)
            if node.op == "broadcast":
                node = replace(node, attributes=(("shape", shape),))
        if node.op in _SORTS:
            self._write_ranks(index, node)
        else:
            self._add(index, node)

    def _write_ranks(self, index: int, node: Node) -> None:
        (x,), (made,) = node.inputs, node.outputs
        shape = self._types[x].shape
        whole = self._new(replace(self._types[made], shape=shape))
        lead = (0,) * (len(shape) - 1)
        call = Call.of(self._graph, self._graph.nodes[index])
        start, step, count = (call.integer(name) for name in ("start", "step", "count"))
        attributes = (
            ("start", (*lead, start)),
            ("stop", (*shape[:-1], start + step * count)),
            ("strides", (*(1,) * len(lead), step)),
        )
        kth, axis = call.integer("kth"), ("axis", len(shape) - 1)
        order = (axis,) if kth < 0 else (("kth", kth), axis)
        self._add(index, Node(_SORTS[node.op][kth >= 0], (x,), (whole,), order))
        self._add(index, Node("slice", (whole,), (made,), attributes))

    def _write_reduction(self, index: int, node: Node, shape: Shape | None) -> None:
        (made,) = node.outputs
        output = self._types[made]
        if node.op != "mean":
            shown = self._new(replace(output, shape=shape or output.shape))
            self._add(index, node)
            self._add(index, Node("reshape", node.outputs, (shown,), (("shape", shape or ()),)))
            self._name[made] = shown
            return
        call = Call.of(self._graph, self._graph.nodes[index])
        total = self._new(output)
        self._add(index, Node("sum", node.inputs, (total,), (("axes", call.attributes["axes"]),)))
        if shape is not None:
            output = self._types[made] = replace(output, shape=shape)
            shown = self._new(output)
            self._add(index, Node("reshape", (total,), (shown,), (("shape", shape),)))
            total = shown
        scale = scale_constant(mean_divisor(call), call.text("form"), output.dtype)
        scalar, spread = self._new(scale.type), self._new(output)
        self._constants.append((scalar, scale))
        self._add(index, Node("broadcast", (scalar,), (spread,), (("shape", output.shape),)))
        self._add(index, Node(call.text("form"), (total, spread), (made,)))

    def _new(self, type_: TensorType) -> ValueId:
        self._types.append(type_)
        return len(self._types) - 1

    def _add(self, index: int, node: Node) -> None:
        self._nodes.append(node)
        self._node_of.append(index)


def _behind(graph: Graph, reshape: int) -> set[int]:
    """Return the nodes before a squeeze that MLX computes behind it: reductions and what follows.

    There are none where something else reads one of them, or is read.
    """
    (source,), (made,) = graph.nodes[reshape].inputs, graph.nodes[reshape].outputs
    kept = tuple(n for n in graph.types[source].shape if n != 1)
    if graph.types[made].shape != kept or graph.types[source].shape == kept:
        return set()
    found, frontier = {reshape}, [source]
    while frontier:
        value = frontier.pop()
        maker = graph.producer_of.get(value)
        if (
            maker is None
            or value in graph.outputs
            or not found.issuperset(graph.consumers_of[value])
        ):
            return set()
        node = graph.nodes[maker]
        kind = op_named(node.op).kind
        if kind is Kind.ELEMENTWISE:
            frontier += [v for v in node.inputs if v in graph.producer_of]
        elif kind is not Kind.REDUCTION and not _is_number(graph, node):
            return set()
        found.add(maker)
    return found - {reshape}


def _is_number(graph: Graph, node: Node) -> bool:
    return node.op == "broadcast" and graph.types[node.inputs[0]].size == 1
