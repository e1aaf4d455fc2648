"""What a function as a whole gains: its champions in their places, and MLX for the rest."""

from collections.abc import Iterable, Mapping, Sequence

from kernelwright.campaign.planning.function_work import FunctionWork, Work
from kernelwright.evaluator.gain import Gain
from kernelwright.evaluator.predicted_gain import gain_between
from kernelwright.evaluator.speed.prediction import PredictedTime, flops_of, perfect_time
from kernelwright.ir import Graph, Region, standardize
from kernelwright.metal.perf import ChipProfile, find_profile
from kernelwright.plan import Traffic, best_traffic, compiled_traffic, eager_traffic, fast_traffic


def count_work(graph: Graph, regions: Sequence[Region]) -> FunctionWork:
    """Count what MLX does for a function that is cut into regions."""
    flops = flops_of(graph)
    covered = {i for region in regions for i in region.indices}
    rest = [i for i in range(len(graph.nodes)) if i not in covered]
    # MLX is given the standard form that each region's task is written in, too.
    standard = standardize(graph)
    return FunctionWork(
        eager=_work_of(eager_traffic(standard), flops),
        compiled=_work_of(compiled_traffic(standard), flops),
        fast=_work_of(fast_traffic(standard), flops),
        regions=tuple(_least(graph, region.indices) for region in regions),
        rest=_least(graph, rest),
    )


def whole_gain(
    work: FunctionWork,
    task_ids: Sequence[str],
    gains: Mapping[str, Gain],
    predicted: Mapping[str, Gain],
    chip: str,
) -> Gain | None:
    """Predict what one call gains; None where nothing is known of any region.

    Args:
        work: The function's.
        task_ids: Of its regions; those that are alike occur as often as they are.
        gains: By task, as they are shown; a region without one stays with MLX.
        predicted: By task, predicted on the chip: measured and predicted times are never added.
        chip: Whose time is predicted.
    """
    if not any(task in gains for task in task_ids):
        return None
    if len(task_ids) == 1 and not work.rest.launches:
        # The function is its only region: one figure, not two that rounding sets apart.
        return gains[task_ids[0]]
    profile = find_profile(chip)
    baselines = {
        "eager": time_of(work.eager, profile),
        "compile": time_of(work.compiled, profile),
        "fast": time_of(work.fast, profile),
    }
    ours_us = min(time.microseconds for time in baselines.values())
    if any(task in gains and gains[task].beats_mlx for task in task_ids):
        parts = [
            _part_us(gains.get(task), predicted.get(task), by_mlx, profile)
            for task, by_mlx in zip(task_ids, work.regions, strict=True)
        ]
        ours_us = sum(parts) + time_of(work.rest, profile).microseconds
    return gain_between(PredictedTime(ours_us, ""), baselines, chip)


def _part_us(
    gain: Gain | None, predicted: Gain | None, by_mlx: Work, profile: ChipProfile
) -> float:
    """Return a region's time: of its kernel where that beats MLX, else of MLX."""
    if gain is not None and gain.beats_mlx and predicted and predicted.kernel_us is not None:
        return predicted.kernel_us
    return time_of(by_mlx, profile).microseconds


def _least(graph: Graph, indices: Iterable[int]) -> Work:
    """Count what MLX does at its best for some nodes."""
    chosen = list(indices)
    return _work_of(best_traffic(graph, chosen), flops_of(graph, chosen))


def _work_of(count: Traffic, flops: int) -> Work:
    return Work(nbytes=count.nbytes, launches=count.launches, flops=flops)


def time_of(work: Work, profile: ChipProfile) -> PredictedTime:
    """Predict the time of work that is done at a chip's peak."""
    return perfect_time(Traffic(work.nbytes, 0, work.launches), work.flops, profile)
