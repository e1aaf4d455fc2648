"""Merging equal nodes, dropping dead ones, and giving each reader its own cheap views."""

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, moved_labels, rewrite
from kernelwright.ir.graph.sighting import Sighting
from kernelwright.ir.ops import Kind, op_named


def eliminate_dead_code(graph: Graph) -> Graph:
    """Drop nodes and constants that no output needs."""
    return rewrite(graph, [])


def merge_common_subexpressions(graph: Graph) -> Graph:
    """Compute equal nodes once."""
    return rewrite(graph, [], merge=True)


def split_views(graph: Graph) -> Graph:
    """Give every reader its own copy of the views and ranges that it reads.

    A view costs nothing to repeat, and a region can then hold it whole: no two regions ever
    have to share one, and none has to take a broadcast array as an input.
    """
    builder = GraphBuilder()
    number: dict[ValueId, ValueId] = {v: builder.value(graph.types[v]) for v in graph.inputs}
    number.update((v, builder.constant(c)) for v, c in graph.constants)
    pending: dict[ValueId, Node] = {}
    seen = dict(graph.labels)
    copied: list[tuple[ValueId, tuple[Sighting, ...]]] = []

    def read(value: ValueId) -> ValueId:
        node = pending.get(value)
        if node is None:
            return number[value]
        inputs = [read(v) for v in node.inputs]
        types = [graph.types[v] for v in node.outputs]
        made = builder.add(node.op, inputs, types, node.attributes)
        copy = made[node.outputs.index(value)]
        if value in seen:
            copied.append((copy, seen[value]))
        return copy

    for node in graph.nodes:
        if _is_free(node):
            pending.update(dict.fromkeys(node.outputs, node))
            continue
        inputs = [read(v) for v in node.inputs]
        types = [graph.types[v] for v in node.outputs]
        made = builder.add(node.op, inputs, types, node.attributes)
        number.update(zip(node.outputs, made, strict=True))
    outputs = [read(v) for v in graph.outputs]
    labels = (*moved_labels(graph, number), *copied)
    return builder.finish([number[v] for v in graph.inputs], outputs, graph, labels)


def _is_free(node: Node) -> bool:
    return op_named(node.op).kind is Kind.VIEW or node.op == "arange"
