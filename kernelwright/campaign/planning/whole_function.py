"""What a function as a whole gains: its champions in their places, and MLX for the rest."""

from collections.abc import Mapping, Sequence

from kernelwright.campaign.planning.function_work import FunctionWork, Work
from kernelwright.evaluator.gain import Gain, gain_between
from kernelwright.evaluator.speed.predicted_time import PredictedTime, peak_time
from kernelwright.metal.perf import ChipProfile, find_profile


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


def time_of(work: Work, profile: ChipProfile) -> PredictedTime:
    """Predict the time of work that is done at a chip's peak."""
    return peak_time(work.nbytes, work.launches, work.flops, profile)
