"""Counts what MLX does for a function, region by region."""

from collections.abc import Iterable, Sequence

from kernelwright.campaign.planning.function_work import FunctionWork, Work
from kernelwright.evaluator.speed.prediction import flops_of
from kernelwright.ir import Graph, Region
from kernelwright.plan import Traffic, baselines, best_traffic


def count_work(graph: Graph, regions: Sequence[Region]) -> FunctionWork:
    """Count what MLX does for a function that is cut into regions."""
    flops = flops_of(graph)
    covered = {i for region in regions for i in region.indices}
    rest = [i for i in range(len(graph.nodes)) if i not in covered]
    by_mlx = baselines(graph)
    return FunctionWork(
        eager=_work_of(by_mlx.eager, flops),
        compiled=_work_of(by_mlx.compiled, flops),
        fast=_work_of(by_mlx.fast, flops),
        regions=tuple(_least(graph, region.indices) for region in regions),
        rest=_least(graph, rest),
    )


def _least(graph: Graph, indices: Iterable[int]) -> Work:
    """Count what MLX does at its best for some nodes."""
    chosen = list(indices)
    return _work_of(best_traffic(graph, chosen), flops_of(graph, chosen))


def _work_of(count: Traffic, flops: int) -> Work:
    return Work(nbytes=count.nbytes, launches=count.launches, flops=flops)
