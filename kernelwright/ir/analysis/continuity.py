"""Ops whose results jump: one rounding of what they read may change them wholly."""

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import op_named


def is_discontinuous(graph: Graph, node: Node) -> bool:
    """Say whether an op's result is no continuous function of its operands."""
    truncates = node.op == "cast" and not graph.types[node.outputs[0]].dtype.is_float
    return truncates or not op_named(node.op).behaviour.is_continuous
