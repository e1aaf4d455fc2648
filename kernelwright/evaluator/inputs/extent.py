"""How large a graph is to whoever judges it: arrays, values on the way, and products."""

from functools import lru_cache

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Kind, op_named

_FLOPS_AN_ELEMENT = 1 << 8
"""Of a product: the simulator takes about as long for them as to read and write some elements."""
_ARRAYS_HELD = 4
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
    held_of = op_named(node.op).held_of
    return made if held_of is None else max(made, _ARRAYS_HELD * held_of(Call.of(graph, node)))


def _multiplied(graph: Graph, node: Node) -> int:
    op = op_named(node.op)
    if op.kind is not Kind.CONTRACTION:
        return 0
    return op.flops(Call.of(graph, node)) // _FLOPS_AN_ELEMENT
