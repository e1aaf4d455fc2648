"""Ops whose results jump: one rounding of what they read may change them wholly."""

from kernelwright.ir.graph import Graph, Node

_JUMPS = frozenset(
    {
        *("argmax", "argmin", "argsort", "argpartition", "partition", "sort", "floor", "ceil"),
        *("sorted_slice", "argsorted_slice"),
        *("round", "sign", "remainder", "floor_divide", "divmod", "less", "less_equal"),
        *("greater", "greater_equal", "equal", "not_equal"),
    }
)


def is_jump(graph: Graph, node: Node) -> bool:
    """Say whether an op's result is no continuous function of its operands."""
    truncates = node.op == "cast" and not graph.types[node.outputs[0]].dtype.is_float
    return node.op in _JUMPS or truncates
