"""Which contractions a region may hold, and which of them MLX's own kernels would win."""

from collections.abc import Iterable, Iterator

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named

CONTRACTIONS = frozenset({"attention"})
"""Those that a kernel family computes."""
MOVING = frozenset({"reshape", "transpose"})
"""Views of a contraction's result that a kernel follows to where it is stored."""


def is_memory_bound(
    graph: Graph, node: Node, *, flops_per_byte: float, launch_bytes: float
) -> bool:
    """Say whether a contraction's arithmetic hides behind its bytes, on ordinary units.

    Where it does not, MLX's kernels win: they multiply on matrix units. `launch_bytes` are those
    that memory could move while a kernel is launched.
    """
    call = Call.of(graph, node)
    moved = sum(t.nbytes for t in (*call.inputs, *call.outputs))
    return op_named(node.op).flops(call) <= flops_per_byte * (moved + launch_bytes)


def trouble_with_attention(graph: Graph) -> str:
    """Say why a graph around attention is no single kernel, or nothing."""
    found = [node for node in graph.nodes if node.op == "attention"]
    if len(found) != 1:
        return "two attentions are two kernels"
    for node in graph.nodes:
        kind = op_named(node.op).kind
        if kind in (Kind.REDUCTION, Kind.SCAN) or (kind is Kind.CONTRACTION and node not in found):
            return f"{node.op} and attention are not one kernel"
    call = Call.of(graph, found[0])
    if call.flag("is_causal") and call.inputs[0].shape[2] > call.inputs[1].shape[2]:
        return "causal attention of more queries than keys sees nothing at first"
    if reason := _trouble_before(graph, found[0]):
        return reason
    return _trouble_after(graph, found[0].outputs[0], call.outputs[0].size)


def _trouble_before(graph: Graph, attention: Node) -> str:
    """Say why a kernel cannot make an attention's operands as it reads them, or nothing."""
    for node in _makers(graph, attention.inputs):
        if op_named(node.op).kind is Kind.INDEXING and node.op != "arange":
            return f"{node.op} is not read inside an attention"
    for node in _makers(graph, attention.inputs[1:3]):
        if op_named(node.op).kind is Kind.ELEMENTWISE and op_named(node.op).flops_per_element > 1:
            return f"every query would compute {node.op} of keys and values again"
    return ""


def _makers(graph: Graph, values: Iterable[ValueId]) -> Iterator[Node]:
    """Yield the nodes from which some values are made."""
    wanted = set(values)
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            yield node


def _trouble_after(graph: Graph, result: ValueId, size: int) -> str:
    """Say why a kernel cannot store what becomes of a contraction's result, or nothing."""
    dependent = {result}
    for node in graph.nodes:
        if not dependent.intersection(node.inputs):
            continue
        if op_named(node.op).kind is not Kind.ELEMENTWISE and node.op not in MOVING:
            return f"{node.op} takes the result of a contraction apart"
        dependent.update(node.outputs)
    for value in graph.outputs:
        if value not in dependent or graph.types[value].size != size:
            return f"the output {graph.types[value]} is not what the contraction makes"
    return ""
