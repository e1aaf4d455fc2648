"""Seeing that of a sorted row only the first or the last few are taken."""

from dataclasses import replace

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call
from kernelwright.ir.ops.axes import slices

MAX_RANKS = 8
"""How far from an end of its row a rank may be; beyond, sorting the row is less work."""
_TAKEN = {
    "sort": "sorted_slice",
    "partition": "sorted_slice",
    "argsort": "argsorted_slice",
    "argpartition": "argsorted_slice",
}


def take_ranks(graph: Graph) -> Graph:
    """Return the graph with each slice of few ranks as one op, where nobody reads the other ranks.

    Replay sorts the whole row again, so that every bit stays.
    """
    nodes = list(graph.nodes)
    for node in graph.nodes:
        if node.op not in _TAKEN or not _is_last_axis(graph, node):
            continue
        columns = graph.types[node.inputs[0]].shape[-1]
        for index, taken in _slices_of(graph, node.outputs[0], range(columns), columns) or ():
            nodes[index] = _taken(node, graph.nodes[index], taken)
    return graph if nodes == list(graph.nodes) else replace(graph, nodes=tuple(nodes))


def sort_partitions(graph: Graph) -> Graph:
    """Return the graph with whole rows sorted where only parts of them need to be.

    A partition promises no order on either side. On a GPU MLX sorts, on a CPU it does not: this
    gives the one answer that both can be compared with.
    """
    return replace(graph, nodes=tuple(map(_sorted, graph.nodes)))


def _sorted(node: Node) -> Node:
    if node.op in ("partition", "argpartition"):
        axis = ("axis", node.attribute("axis"))
        return Node(node.op.replace("partition", "sort"), node.inputs, node.outputs, (axis,))
    if node.op not in _TAKEN.values():
        return node
    attributes = tuple((k, -1 if k == "kth" else v) for k, v in node.attributes)
    return replace(node, attributes=attributes)


def _is_last_axis(graph: Graph, node: Node) -> bool:
    rank = len(graph.types[node.inputs[0]].shape)
    return Call.of(graph, node).integer("axis") % rank == rank - 1


def _slices_of(
    graph: Graph, value: ValueId, ranks: range, columns: int
) -> list[tuple[int, range]] | None:
    """List the slices that are all that is read of a sorted array, with the ranks of each."""
    found: list[tuple[int, range]] = []
    if value in graph.outputs or not graph.consumers_of[value]:
        return None
    for index in graph.consumers_of[value]:
        node = graph.nodes[index]
        if node.op != "slice":
            return None
        call = Call.of(graph, node)
        *rest, last = slices(call)
        shape = call.inputs[0].shape[:-1]
        if any((s.start, s.stop, s.step) != (0, n, 1) for s, n in zip(rest, shape, strict=True)):
            return None
        taken = ranks[last]
        if taken and _are_few(taken, columns):
            found.append((index, taken))
            continue
        further = _slices_of(graph, node.outputs[0], taken, columns)
        if further is None:
            return None
        found += further
    return found


def _are_few(taken: range, columns: int) -> bool:
    """Say whether all ranks stand near the same end of the row."""
    return max(taken) < MAX_RANKS or min(taken) >= columns - MAX_RANKS


def _taken(sort: Node, node: Node, taken: range) -> Node:
    kth = sort.attribute("kth") if sort.has("kth") else -1
    attributes = (
        ("axis", -1),
        ("start", taken.start),
        ("step", taken.step),
        ("count", len(taken)),
        ("kth", kth),
    )
    return Node(_TAKEN[sort.op], sort.inputs, node.outputs, attributes)
