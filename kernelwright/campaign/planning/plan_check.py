"""Keeps a plan from being worse than what MLX does without it."""

from collections.abc import Sequence

from kernelwright.ir import Graph, Region, planned_traffic
from kernelwright.ir.cost import DEFAULT_PROFILE, time_us
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.traffic import compile_groups

REASON = "mx.compile runs it in one kernel with its neighbours, which one of our own would cut off"


def worthwhile(graph: Graph, regions: Sequence[Region]) -> tuple[Region, ...]:
    """Return the regions without which a call would not be cheaper.

    A region is left out when MLX with it takes longer than MLX without it, launches and bytes
    counted: it cuts a chain that `mx.compile` fuses whole. The one that costs most goes first.
    """
    kept = list(regions)
    groups = [set(group) for group in compile_groups(graph)]
    while cutting := [r for r in kept if any(_working(r) < group for group in groups)]:
        now_us = _time_us(graph, kept)
        without = {r: _time_us(graph, [k for k in kept if k is not r]) for r in cutting}
        worst = min(cutting, key=lambda r: without[r])
        if without[worst] >= now_us:
            break
        kept.remove(worst)
    return tuple(kept)


def _working(region: Region) -> set[int]:
    """Return a region's nodes other than views, which any kernel reads through."""
    nodes = region.graph.nodes
    return {i for i in region.indices if op_named(nodes[i].op).kind is not Kind.VIEW}


def _time_us(graph: Graph, regions: Sequence[Region]) -> float:
    return time_us(planned_traffic(graph, regions), DEFAULT_PROFILE)
