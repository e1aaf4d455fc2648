"""Predicted times and their ratios, without the rules of planning, which take long to import."""

from dataclasses import dataclass

from kernelwright.evaluator.evaluation import Speedup
from kernelwright.metal.perf import ChipProfile


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """A whole program's time on a chip, and what limits its longest launch."""

    microseconds: float
    bound: str


def peak_time(nbytes: int, launches: int, flops: int, profile: ChipProfile) -> PredictedTime:
    """Predict launches that move and compute at a chip's peak, and wait for what any waits for."""
    bytes_per_us = profile.bandwidth_gb_s * 1e3 * profile.bandwidth_efficiency
    parts = {
        "memory": nbytes / bytes_per_us,
        "compute": flops / (profile.float_tflops * 1e6),
        "launch": launches * profile.least_wait_us,
    }
    longest = max(parts, key=lambda part: parts[part])
    return PredictedTime(launches * profile.launch_us + parts[longest], longest)


def speedups_of(
    prediction: PredictedTime, baselines: dict[str, PredictedTime]
) -> tuple[Speedup, ...]:
    """Return predicted ratios; they have no interval, for counting has no noise."""
    ratios = {
        name: baseline.microseconds / prediction.microseconds
        for name, baseline in baselines.items()
    }
    return tuple(
        Speedup(baseline=name, ratio=ratio, kind="predicted") for name, ratio in ratios.items()
    )
