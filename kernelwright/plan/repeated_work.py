"""What a fused kernel computes again because it reads its own values at several places.

A step of a stencil reads each point five times over. Two steps in one kernel compute the first at
five places for every element of the second, four steps at 625: more than a pass over memory saves.
"""

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops import Call, Kind, op_named

MOST_REPEATED = 40
"""Operations an element may repeat: at 4 bytes written and read again, and some 10 operations for
each byte that an H200 moves in half precision (see its profile), that is what a pass costs."""
_MOST_PLACES = 64
_MOVING = frozenset({"slice", "concatenate"})
Path = tuple[int, ...]
"""The moves between an element and the place at which it reads a value."""


def repeated_operations(graph: Graph) -> int:
    """Count the operations that each element repeats, up to a few more than are worth it.

    What is read in several rows or parts stands at as many places. Reductions begin anew: their
    results are computed once a row.
    """
    if not any(node.op in _MOVING for node in graph.nodes):
        return 0
    places: dict[ValueId, set[Path]] = {value: {()} for value in graph.outputs}
    first = _first_alike(graph)
    total = 0
    for number, node in reversed(list(enumerate(graph.nodes))):
        here: set[Path] = set().union(*(places.get(v, set()) for v in node.outputs))
        if len(here) > _MOST_PLACES or total > MOST_REPEATED:
            return MOST_REPEATED + 1
        kind = op_named(node.op).kind
        if len(here) > 1:
            total += (len(here) - 1) * _operations(graph, number, kind)
        if kind in (Kind.REDUCTION, Kind.SCAN):
            here = {()}
        if node.op in _MOVING:
            here = {_moved(graph, path, first[number]) for path in here}
        for value in node.inputs:
            places.setdefault(value, set()).update(here)
    return total


def _operations(graph: Graph, number: int, kind: Kind) -> int:
    node = graph.nodes[number]
    if node.op == "concatenate":
        return 1
    if kind is not Kind.ELEMENTWISE:
        return 0
    call = Call.of(graph, node)
    return op_named(node.op).flops(call) // max(call.outputs[0].size, 1)


def _first_alike(graph: Graph) -> list[int]:
    """Return, for each node, the first that does the same to the same values.

    Every reader has views of its own, so that one place is shown by several slices.
    """
    alike: dict[object, int] = {}
    known: dict[ValueId, ValueId] = {}
    firsts: list[int] = []
    for number, node in enumerate(graph.nodes):
        inputs = tuple(known.get(v, v) for v in node.inputs)
        first = alike.setdefault((node.op, inputs, node.attributes), number)
        known.update(zip(node.outputs, graph.nodes[first].outputs, strict=True))
        firsts.append(first)
    return firsts


def _moved(graph: Graph, path: Path, number: int) -> Path:
    """Return the path to what a node moves; parts of a concatenation are one place."""
    is_part = path and graph.nodes[path[-1]].op == "concatenate"
    return path if is_part and graph.nodes[number].op == "slice" else (*path, number)
