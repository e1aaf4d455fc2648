"""The parts of a trace between two steps that are left to state; each is a graph of its own."""

from dataclasses import dataclass

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.region import Region
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.trace import Trace


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

    What reads parameters alone, such as a weight's transpose, stays with the product behind it.
    """
    graph = trace.graph
    level = _earliest(trace)
    nodes: dict[int, list[int]] = {}
    latest: dict[ValueId, int] = {}
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

    # What caches are read for at first depends on nothing: the graph begins behind it.
    ready = next((i for i, call in enumerate(trace.calls) if call.kind != "item"), len(trace.calls))
    note(trace.call, ready)
    for number, call in enumerate(trace.calls):
        note(call.result, max(number + 1, ready) if call.kind != "item" else ready)
    for node in graph.nodes:
        found = max((level[v] for v in node.inputs), default=-1)
        level.update(dict.fromkeys(node.outputs, found))
    return level


def _segment(graph: Graph, before: int, indices: list[int]) -> Segment:
    region = Region(graph, tuple(indices))
    return Segment(before, region.bare(), region.inputs, region.outputs)
