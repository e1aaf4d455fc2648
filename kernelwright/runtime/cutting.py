"""The parts of a graph that are looked up in the store: the planner's, and products left alone."""

from collections.abc import Collection, Mapping

from kernelwright.evaluator.evaluation import Evaluation
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


def wholes_of(graph: Graph, regions: Collection[Region]) -> tuple[Region, ...]:
    """Return all of a graph as one region, as models may cut it, where the planner cuts otherwise.

    Views at its end may belong to it or not: they launch nothing.
    """
    indices = set(range(len(graph.nodes)))
    wholes = [Region(graph, tuple(sorted(indices)))]
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        read = {i for v in node.outputs for i in graph.consumers_of[v]}
        if op_named(node.op).kind is Kind.VIEW and not read & indices:
            indices.discard(index)
    wholes.append(Region(graph, tuple(sorted(indices))))
    return tuple(w for w in dict.fromkeys(wholes) if w.indices and w not in regions)


def is_whole_better(
    whole: Evaluation, parts: Mapping[Region, Evaluation | None], graph: Graph
) -> bool:
    """Say whether a graph's own kernel is faster than those of its parts are together.

    It is where MLX computes what is left of the graph: that takes launches of its own.
    """
    if sum(len(region.indices) for region in parts) < len(graph.nodes):
        return True
    times = [part.taken_us if part else None for part in parts.values()]
    own = whole.taken_us
    return None in times or own is None or own <= sum(t for t in times if t is not None)


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
