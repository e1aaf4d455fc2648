"""Speed where nothing can be measured: predictions, compared with predictions only."""

from collections.abc import Iterable, Sequence

from kernelwright.evaluator.speed.predicted_time import PredictedTime, peak_time
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, op_named
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import ChipProfile, predict
from kernelwright.plan.baseline import baselines
from kernelwright.plan.traffic import Traffic


def predict_program(counters: Sequence[Counters], profile: ChipProfile) -> PredictedTime:
    """Predict a program's time from what its launches were counted to do."""
    launches = [predict(c, profile) for c in counters]
    longest = max(launches, key=lambda p: p.time_us)
    return PredictedTime(sum(p.time_us for p in launches), longest.bound)


def predict_baselines(graph: Graph, profile: ChipProfile) -> dict[str, PredictedTime]:
    """Predict eager MLX, `mx.compile` and `mx.fast`, each op or chain as a perfect kernel.

    A perfect kernel reads each input once, writes each output once, at the chip's bandwidth or
    its peak arithmetic: real ones are slower, so a predicted gain errs on the careful side.
    """
    flops = flops_of(graph)
    by_mlx = baselines(graph)
    traffics = {"eager": by_mlx.eager, "compile": by_mlx.compiled}
    if by_mlx.fast != by_mlx.compiled:
        traffics["fast"] = by_mlx.fast
    return {name: perfect_time(traffic, flops, profile) for name, traffic in traffics.items()}


def flops_of(graph: Graph, indices: Iterable[int] | None = None) -> int:
    """Count the arithmetic of a graph, or of some of its nodes."""
    chosen = range(len(graph.nodes)) if indices is None else indices
    nodes = [graph.nodes[i] for i in chosen]
    return sum(op_named(n.op).flops(Call.of(graph, n)) for n in nodes)


def perfect_time(traffic: Traffic, flops: int, profile: ChipProfile) -> PredictedTime:
    """Predict launches that move and compute at the chip's peak."""
    return peak_time(traffic.nbytes, traffic.launches, flops, profile)
