"""How large a graph is to whoever judges it: arrays, values on the way, and products."""

from functools import lru_cache

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Kind, op_named

_FLOPS_AN_ELEMENT = 1 << 8
"""Of a product: the simulator takes about as long for them as to read and write some elements."""
_ARRAYS_OF_SCORES = 4
"""Scores and weights of an attention, and what each may be off, live at once in the oracle."""


@lru_cache(maxsize=1 << 12)
def extent_of(graph: Graph) -> int:
    """Return the elements of inputs and outputs, or as many as anything on the way takes.

    An attention's scores and a broadcast difference are quadratic in what is read and written.
    """
    largest = (max(_held(graph, node), _multiplied(graph, node)) for node in graph.nodes)
    return max(graph.element_count, max(largest, default=0))


def _held(graph: Graph, node: Node) -> int:
    """Return how many elements an op's largest value has."""
    made = max(graph.types[value].size for value in node.outputs)
    if node.op != "attention":
        return made
    batch, heads, queries, _ = graph.types[node.inputs[0]].shape
    scores = batch * heads * queries * graph.types[node.inputs[1]].shape[2]
    return max(made, _ARRAYS_OF_SCORES * scores)


def _multiplied(graph: Graph, node: Node) -> int:
    op = op_named(node.op)
    if op.kind is not Kind.CONTRACTION:
        return 0
    return op.flops(Call.of(graph, node)) // _FLOPS_AN_ELEMENT
