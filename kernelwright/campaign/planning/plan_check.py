"""Keeps a plan from being worse than what MLX does without it."""

from collections.abc import Iterator, Sequence

from kernelwright.ir import Graph, Region, idioms
from kernelwright.ir.ops import Kind, op_named
from kernelwright.plan import baselines, best_traffic, planned_traffic
from kernelwright.plan.cost import DEFAULT_PROFILE, time_us
from kernelwright.plan.mlx.fusion import compile_groups
from kernelwright.plan.traffic import IN_MLX_FAST

REASON = "MLX runs it in one kernel with its neighbours, which one of our own would cut off"
_NOTHING_US = 1e-6
"""Differences of sums in another order."""


def worthwhile(graph: Graph, regions: Sequence[Region]) -> tuple[Region, ...]:
    """Return the regions without which a call would not be cheaper.

    A region is left out when MLX with it takes longer than MLX without it, launches and bytes
    counted: it cuts a chain that `mx.compile` fuses whole, or what `mx.fast` has a kernel for. The
    one that costs most goes first. Where what is left is still slower than MLX at its best, no
    region stays.
    """
    kept = _without(graph, regions, list(_fused_by_mlx(graph)))
    best_us = _best_of_mlx_us(graph)
    if kept and _time_us(graph, kept) > best_us + _NOTHING_US:
        # Regions that cut nothing may still move more than MLX does.
        kept = _without(graph, kept, None)
        if _time_us(graph, kept) > best_us + _NOTHING_US:
            return ()
    return kept


def _without(
    graph: Graph, regions: Sequence[Region], groups: Sequence[set[int]] | None
) -> tuple[Region, ...]:
    """Leave out regions that cost more than they save; with `groups`, of those that cut one."""
    kept = list(regions)
    while tried := [r for r in kept if groups is None or _cuts(r, groups)]:
        now_us = _time_us(graph, kept)
        without = {r: _time_us(graph, [k for k in kept if k is not r]) for r in tried}
        worst = min(tried, key=lambda r: without[r])
        if without[worst] >= now_us - _NOTHING_US:
            break
        kept.remove(worst)
    return tuple(kept)


def _fused_by_mlx(graph: Graph) -> Iterator[set[int]]:
    """Yield the nodes of each kernel that MLX would make of several, views left out."""
    views = {i for i, node in enumerate(graph.nodes) if op_named(node.op).kind is Kind.VIEW}
    yield from (set(group) - views for group in compile_groups(graph) if len(group) > 1)
    yield from (set(i.indices) - views for i in idioms(graph) if i.name in IN_MLX_FAST)


def _cuts(region: Region, groups: Sequence[set[int]]) -> bool:
    """Say whether a region holds some nodes of a kernel of MLX's, and not all."""
    own = set(region.indices)
    return any(own & group and not own >= group for group in groups)


def _best_of_mlx_us(graph: Graph) -> float:
    """Return what MLX takes at its best."""
    return min(time_us(way, DEFAULT_PROFILE) for way in baselines(graph).ways)


def _time_us(graph: Graph, regions: Sequence[Region]) -> float:
    """Return what a call takes: a perfect kernel for each region, MLX at its best for the rest."""
    covered = {i for region in regions for i in region.indices}
    rest = [i for i in range(len(graph.nodes)) if i not in covered]
    kernels = time_us(planned_traffic(graph, regions, covered), DEFAULT_PROFILE)
    return kernels + time_us(best_traffic(graph, rest), DEFAULT_PROFILE)
