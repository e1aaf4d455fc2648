"""What samples say: medians of paired ratios, intervals, and the price of many tries."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
_MAD_TO_SIGMA = 1.4826
_ASTRAY = 0.15
"""Pairs that interruptions may turn against a faster candidate."""
_CONVERGENT = 2.4
"""Bounds the sum of 1 / (k (1 + ln k)^2) over all k >= 1, which is below 2.39."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its confidence interval; above 1 the candidate is faster."""

    ratio: float
    lower: float
    upper: float
    confidence: float


def log_ratios(candidate_ns: Sequence[float], baseline_ns: Sequence[float]) -> Reals:
    """Return log(baseline / candidate) for each pair taken side by side.

    It is not finite where a sample took no time, or less.
    """
    candidate, baseline = np.asarray(candidate_ns, float), np.asarray(baseline_ns, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Reals = np.log(baseline / candidate)
    return ratios


def bootstrap(
    ratios: Reals, confidence: float, resamples: int, random: np.random.Generator
) -> Interval:
    """Return the median ratio with a percentile bootstrap interval."""
    drawn = random.choice(ratios, (resamples, len(ratios)))
    medians = np.median(drawn, axis=1)
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(medians, (tail, 1 - tail))
    centre = float(np.exp(np.median(ratios)))
    return Interval(centre, float(np.exp(lower)), float(np.exp(upper)), confidence)


def sign_test_lower(ratios: Reals, alpha: float) -> float:
    """Return a lower bound of the median ratio that fails with probability `alpha` at most.

    The bound is an order statistic: it assumes nothing of the noise but independence between
    pairs, so heavy tails cannot break it. 0 when there are too few pairs for `alpha`.
    """
    ordered, count = np.sort(ratios), len(ratios)
    rank = sum(1 for heads in range(count) if _heads_at_most(heads, count) <= alpha)
    return float(np.exp(ordered[rank - 1])) if rank else 0.0


def pairs_for(alpha: float) -> int:
    """Return how many pairs a sign test at `alpha` needs, with a share of them going astray."""
    count = math.ceil(math.log2(1 / alpha))
    while _heads_at_most(math.ceil(_ASTRAY * count), count) > alpha:
        count += 1
    return count


def _heads_at_most(heads: int, tosses: int) -> float:
    """Return the probability of at most so many heads in tosses of a fair coin."""
    # SciPy offers the same, and takes a third of a second to import in every worker.
    return sum(math.comb(tosses, k) for k in range(heads + 1)) / (1 << tosses)


def spent_alpha(alpha: float, tried: int) -> float:
    """Return the share of `alpha` that the `tried`-th candidate of a search may use.

    The shares of all candidates, however many there will be, add up to no more than `alpha`.
    """
    return alpha / (_CONVERGENT * tried * (1 + math.log(tried)) ** 2)


def spread(log_ratios_of_equals: Reals) -> float:
    """Return the robust standard deviation of A/A comparisons: what equals differ by."""
    return float(_MAD_TO_SIGMA * np.median(np.abs(log_ratios_of_equals)))


def noise_margin(aa_spread: float, alpha: float) -> float:
    """Return the gain that equals reach with probability `alpha`, as a fraction."""
    return float(math.expm1(-NormalDist().inv_cdf(alpha) * aa_spread))


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of positive ratios."""
    return float(np.exp(np.mean(np.log(ratios))))
