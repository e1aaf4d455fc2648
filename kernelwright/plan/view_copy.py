"""Graphs of views alone: one kernel where MLX copies, once or several times."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.plan.legality import legality
from kernelwright.plan.traffic import eager_traffic


def copying_region(graph: Graph) -> tuple[Region, ...]:
    """Return a graph of nothing but views as a region, if MLX cannot show it without copying."""
    if any(op_named(node.op).kind is not Kind.VIEW for node in graph.nodes):
        return ()
    whole = Region(graph, tuple(range(len(graph.nodes))))
    copies = eager_traffic(graph).launches
    return (whole,) if copies and legality(whole).is_legal else ()
