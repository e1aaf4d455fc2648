"""When a comparison counts: enough gain, beyond noise and luck, and possible at all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.evaluator.speed.statistics import (
    Interval,
    Reals,
    bootstrap,
    noise_margin,
    pairs_for,
    sign_test_lower,
    spent_alpha,
)
from kernelwright.evaluator.speed.timing import Comparison


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least that a task can cost on a device."""

    bytes_moved: int
    """Every input read once and every output written once."""
    operations: int
    bytes_per_s: float
    """Measured by the canary's copy, or the chip's peak."""
    operations_per_s: float

    @property
    def floor_ns(self) -> float:
        """The time that memory and arithmetic need at their peaks."""
        return 1e9 * max(
            self.bytes_moved / self.bytes_per_s, self.operations / self.operations_per_s
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """What a candidate must clear, given how many were tried before it."""

    margin: float
    """The gain that is asked for, as a fraction."""
    alpha: float
    blocks: int
    """Fresh blocks needed to test at `alpha`."""


def bar_for(plan: TimingPlan, tried: int, aa_spread: float) -> Bar:
    """Return the bar of the `tried`-th candidate where equals differ by `aa_spread`."""
    alpha = spent_alpha(plan.alpha, tried)
    margin = max(plan.minimum_effect, noise_margin(aa_spread, alpha))
    return Bar(margin, alpha, max(plan.pairs, pairs_for(alpha)))


def clears(ratios: Reals, bar: Bar) -> bool:
    """Say whether a fresh sample proves the gain at the bar's own level."""
    return sign_test_lower(ratios, bar.alpha) > 1 + bar.margin


def interval_of(comparison: Comparison, plan: TimingPlan, random: np.random.Generator) -> Interval:
    """Return the ratio with its 95 % bootstrap interval."""
    return bootstrap(comparison.ratios, 0.95, plan.resamples, random)


def implausibility(candidate_ns: Sequence[float], roofline: Roofline, plan: TimingPlan) -> str:
    """Say why the samples cannot be true, or return an empty string."""
    if not all(math.isfinite(ns) and ns > 0 for ns in candidate_ns):
        return "a sample took no time at all, or less"
    median = float(np.median(candidate_ns))
    if median * plan.plausibility < roofline.floor_ns:
        return (
            f"{median / 1e3:.3g} us is less than the {roofline.floor_ns / 1e3:.3g} us that memory "
            "and arithmetic need at their peaks"
        )
    return ""


def speedup_of(baseline: str, interval: Interval) -> Speedup:
    """Return the record of a measured comparison."""
    return Speedup(
        baseline=baseline,
        ratio=interval.ratio,
        lower=interval.lower,
        upper=interval.upper,
        confidence=interval.confidence,
        kind="measured",
    )
