"""Rows of which a few elements are ranked: what may stand around that in one kernel."""

import math

from kernelwright.ir.analysis.row_independence import row_independence
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

RANKED = frozenset({"sorted_slice", "argsorted_slice"})
"""Ops that take a few ranks of every row."""
MAX_RANKED = 8
"""Elements that a row may have where they are computed one by one, behind a ranking."""
LONGEST_ROW = 4096
"""Elements beyond which going over a row once a rank costs more than sorting it."""
_OF_EXPONENTIALS = frozenset({"softmax", "logsumexp"})
"""Reductions of ranked elements that are written out, beside those that one op joins."""


def is_ranked(graph: Graph) -> bool:
    """Say whether a graph takes ranks of rows."""
    return any(node.op in RANKED for node in graph.nodes)


def ranked_shape(graph: Graph) -> tuple[int, ...]:
    """Return the shape whose last axis is ranked."""
    return graph.types[next(n for n in graph.nodes if n.op in RANKED).inputs[0]].shape


def ranked_values(graph: Graph) -> frozenset[ValueId]:
    """Return what is made of ranked elements."""
    found: set[ValueId] = set()
    for node in graph.nodes:
        if node.op in RANKED or found.intersection(node.inputs):
            found.update(node.outputs)
    return frozenset(found)


def is_written_out(graph: Graph, node: Node, ranked: frozenset[ValueId]) -> bool:
    """Say whether a reduction is over few ranked elements, so that each is a term of its own."""
    columns = graph.types[node.inputs[0]].shape[-1]
    return node.inputs[0] in ranked and columns <= MAX_RANKED


def unfit(graph: Graph) -> str:
    """Say why a graph that ranks rows is not one row-wise kernel, or nothing."""
    shape = ranked_shape(graph)
    if shape[-1] > LONGEST_ROW:
        return f"rows of {shape[-1]} are ranked by sorting"
    ranked = ranked_values(graph)
    for node in graph.nodes:
        if reason := _trouble_with(graph, node, shape, ranked):
            return reason
    rows = math.prod(shape[:-1])
    for value in graph.outputs:
        type_ = graph.types[value]
        is_short = value in ranked and type_.size <= rows * MAX_RANKED
        if not is_short and type_.size not in (rows, math.prod(shape)):
            return f"the output {type_} is neither rows nor elements"
    return row_independence(graph, shape, (len(shape) - 1,)).reason


def _trouble_with(
    graph: Graph, node: Node, shape: tuple[int, ...], ranked: frozenset[ValueId]
) -> str:
    """Say why a node that reads whole rows has no kernel among those that rank, or nothing."""
    if op_named(node.op).kind is not Kind.REDUCTION and node.op not in RANKED:
        return ""
    call = Call.of(graph, node)
    source = call.inputs[0]
    is_last = reduced_axes(call) == (len(source.shape) - 1,)
    if is_last and is_written_out(graph, node, ranked):
        is_known = op_named(node.op).joined_by or node.op in _OF_EXPONENTIALS
        return "" if is_known else f"{node.op} of ranked elements has no kernel"
    if not is_last or source.size != math.prod(shape):
        return f"{node.op} of {source.shape} has other rows"
    if node.op in RANKED and not source.dtype.is_float:
        return f"{node.op} of {source} has no kernel"
    return ""
