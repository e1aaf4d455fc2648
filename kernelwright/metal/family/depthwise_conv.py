"""Convolutions of few taps a channel: small sums that are written out where they are read."""

import math

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named

MOST_TAPS = 16
"""Terms of a sum that a kernel writes out: a 4 x 4 window; larger ones are left to MLX."""


def is_window(graph: Graph, node: Node) -> bool:
    """Say whether a node is a convolution of every channel by itself, with few taps."""
    if node.op != "convolution":
        return False
    call = Call.of(graph, node)
    source, weight = (t.shape for t in call.inputs)
    return (
        call.integer("groups") == source[-1]
        and math.prod(weight[1:-1]) <= MOST_TAPS
        and set(call.integers("input_dilation")) == {1}
    )


def trouble_with_windows(graph: Graph) -> str:
    """Say why a graph's windows are not read where they are, or nothing.

    What a window reads is read again by every tap: it may be moved before, not computed.
    """
    read: set[ValueId] = set()
    for node in reversed(graph.nodes):
        if read.intersection(node.outputs):
            kind = op_named(node.op).kind
            if kind not in (Kind.VIEW, Kind.INDEXING) and node.op != "cast":
                return f"{node.op} stands before a convolution, whose taps would all repeat it"
            read.update(node.inputs)
        elif is_window(graph, node):
            read.update(node.inputs)
    return ""
