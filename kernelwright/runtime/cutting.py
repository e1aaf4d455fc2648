"""The parts of a graph that are looked up in the store: the planner's, and products left alone."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.plan import partition


def regions_of(graph: Graph) -> list[Region]:
    """Cut a canonical graph; products that the planner leaves to MLX are regions of their own.

    Alone they save no launch, yet reading the weights is most of a decode step.
    """
    regions = partition(graph)
    covered = {i for region in regions for i in region.indices}
    for index, node in enumerate(graph.nodes):
        if index in covered or op_named(node.op).kind is not Kind.CONTRACTION:
            continue
        region = _with_views(graph, index, covered)
        regions.append(region)
        covered.update(region.indices)
    return sorted(regions, key=lambda region: region.indices[0])


def _with_views(graph: Graph, index: int, covered: set[int]) -> Region:
    """Return a product with the views that nothing else reads."""
    found = {index}
    waiting = [index]
    while waiting:
        for value in graph.nodes[waiting.pop()].inputs:
            maker = graph.producer_of.get(value)
            if maker is None or maker in covered or maker in found or value in graph.outputs:
                continue
            is_view = op_named(graph.nodes[maker].op).kind is Kind.VIEW
            if is_view and found.issuperset(graph.consumers_of[value]):
                found.add(maker)
                waiting.append(maker)
    return Region(graph, tuple(sorted(found)))
