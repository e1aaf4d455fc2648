"""The parts of a trace between two steps that are left to state; each is a graph of its own."""

from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.plan import with_own_copies
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.recorded import Trace


@dataclass(frozen=True)
class Segment:
    """Nodes that run before opaque call number `before`, or at the end."""

    before: int
    graph: Graph
    reads: tuple[ValueId, ...]
    """Values of the trace's graph, in the order of the segment's inputs."""
    makes: tuple[ValueId, ...]


def segments_of(trace: Trace) -> tuple[Segment, ...]:
    """Cut a trace where state is read or changed: each node runs as early as it can.

    What reads parameters alone, such as a weight's transpose, stays with the product behind it,
    and an elementwise op such as a gate's activation with what reads it.
    """
    graph = trace.graph
    level = _earliest(trace)
    _sink(trace, level)
    nodes: dict[int, list[int]] = {}
    latest = _first_needed(trace)
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        found = max(level[v] for v in node.outputs)
        if found < 0:
            found = min((latest[v] for v in node.outputs if v in latest), default=len(trace.calls))
        for value in node.inputs:
            latest[value] = min(latest.get(value, found), found)
        nodes.setdefault(found, []).insert(0, index)
    return tuple(_segment(graph, at, indices) for at, indices in sorted(nodes.items()))


def _earliest(trace: Trace) -> dict[ValueId, int]:
    """Return how many opaque calls each value waits for; -1 where it waits for nothing."""
    graph = trace.graph
    level = dict.fromkeys((*graph.inputs, *graph.constant_of), -1)

    def note(template: object, number: int) -> None:
        places = (leaf.place for leaf in leaves(template) if type(leaf) is Ref)
        level.update((place, number) for place in places if place < len(graph.types))

    # What state is read for at first depends on nothing: the graph begins behind it.
    ready = next((i for i, c in enumerate(trace.calls) if not c.only_reads), len(trace.calls))
    note(trace.call, ready)
    for number, call in enumerate(trace.calls):
        note(call.result, max(number + 1, ready))
    for node in graph.nodes:
        found = max((level[v] for v in node.inputs), default=-1)
        level.update(dict.fromkeys(node.outputs, found))
    return level


def _sink(trace: Trace, level: dict[ValueId, int]) -> None:
    """Move elementwise ops and views to the segment of their first reader.

    There they cost no launch. They stay where that would keep another array alive in between.
    """
    graph = trace.graph
    needed = _first_needed(trace)
    for node in reversed(graph.nodes):
        found = max(level[v] for v in node.outputs)
        readers = [
            max(level[v] for v in graph.nodes[reader].outputs)
            for value in node.outputs
            for reader in graph.consumers_of[value]
        ]
        readers += [needed[v] for v in node.outputs if v in needed]
        wanted = min(readers, default=found)
        if 0 <= found < wanted and _is_light(graph, node) and _are_there(trace, node, found, level):
            level.update(dict.fromkeys(node.outputs, wanted))


def _first_needed(trace: Trace) -> dict[ValueId, int]:
    """Return before which opaque call each value is handed to state, or to the caller."""
    found: dict[ValueId, int] = {}
    given = [(call.target, call.args, call.kwargs) for call in trace.calls]
    for number, template in enumerate([*given, trace.result]):
        for leaf in leaves(template):
            if type(leaf) is Ref:
                found.setdefault(leaf.place, number)
    return found


def _is_light(graph: Graph, node: Node) -> bool:
    return op_named(node.op).kind in (Kind.ELEMENTWISE, Kind.VIEW)


def _are_there(trace: Trace, node: Node, at: int, level: dict[ValueId, int]) -> bool:
    """Say whether a node's operands are kept anyway, or can be computed where the node goes.

    They are kept where they are given, or where something else that stays reads them. What a view
    shows counts in its place, and so do the operands of a light op that nothing else reads.
    """
    graph = trace.graph
    for value in node.inputs:
        maker = graph.producer_of.get(value)
        if maker is None or level[value] < at:
            continue
        source = graph.nodes[maker]
        is_view = op_named(source.op).kind is Kind.VIEW
        if not is_view and _stays(graph, value, node, at, level):
            continue
        if not _is_light(graph, source) or not _are_there(trace, source, at, level):
            return False
    return True


def _stays(graph: Graph, value: ValueId, node: Node, at: int, level: dict[ValueId, int]) -> bool:
    """Say whether something but `node` reads a value in its own segment."""
    readers = (graph.nodes[reader] for reader in graph.consumers_of[value])
    return any(
        max(level[v] for v in reader.outputs) <= at for reader in readers if reader is not node
    )


def _segment(graph: Graph, before: int, indices: list[int]) -> Segment:
    region = Region(graph, tuple(indices))
    graph = region.bare()
    return Segment(before, with_own_copies(graph), region.inputs, region.outputs)
