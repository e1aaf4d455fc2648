"""Giving each reader its own copy of what is computed from numbers alone.

The angles of a rotary embedding follow from one offset. A kernel that makes them for two readers
is a launch; either reader computes them in less time than a launch takes.
"""

from dataclasses import replace

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.region import Region
from kernelwright.plan.partition import partition


def with_own_copies(graph: Graph) -> Graph:
    """Return the graph with such parts once for each region that reads them, where that saves one.

    A part is a region that reads single elements alone and is read by several other regions.
    """
    regions = partition(graph)
    region_of = {i: number for number, region in enumerate(regions) for i in region.indices}
    changed = graph
    for region in regions:
        if all(graph.types[v].size == 1 for v in region.inputs):
            readers = _readers(region, region_of)
            if len(readers) > 1:
                # Indices hold for the graph as it was: one such part is copied.
                changed = _copied(graph, region, readers)
                break
    if changed is graph or len(partition(changed)) >= len(regions):
        return graph
    return changed


def _readers(region: Region, region_of: dict[int, int]) -> list[set[int]]:
    """Return the nodes that read a region, by the region that they are in; none if one is in none.

    Values that the graph returns are read by its caller.
    """
    graph = region.graph
    if any(v in graph.outputs for v in region.outputs):
        return []
    found: dict[int, set[int]] = {}
    for index in {i for v in region.outputs for i in graph.consumers_of[v]} - set(region.indices):
        if index not in region_of:
            return []
        found.setdefault(region_of[index], set()).add(index)
    return [found[number] for number in sorted(found)]


def _copied(graph: Graph, region: Region, readers: list[set[int]]) -> Graph:
    """Add a copy of a region for each group of readers behind the first."""
    types, nodes = list(graph.types), {i: [node] for i, node in enumerate(graph.nodes)}
    for group in readers[1:]:
        number: dict[ValueId, ValueId] = {}
        for value in (v for node in region.nodes for v in node.outputs):
            number[value] = len(types)
            types.append(graph.types[value])
        for index in region.indices:
            nodes[index].append(_renumbered(graph.nodes[index], number))
        # A reader makes none of these values, so that its outputs stay as they are.
        for index in group:
            nodes[index] = [_renumbered(node, number) for node in nodes[index]]
    ordered = tuple(node for index in nodes for node in nodes[index])
    return replace(graph, types=tuple(types), nodes=ordered)


def _renumbered(node: Node, number: dict[ValueId, ValueId]) -> Node:
    inputs = tuple(number.get(v, v) for v in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(number.get(v, v) for v in node.outputs))
