"""What a champion gains, over which baseline, and whether that was measured."""

from typing import Literal

from kernelwright.campaign.ranking import unique_bytes_moved
from kernelwright.campaign.savings import Traffic
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.diagnostic import Record

_LEAST_RATIO = 1.005


class Gain(Record):
    """A ratio above 1 is faster, or moves fewer bytes where nothing was timed."""

    kind: Literal["measured", "predicted", "traffic"]
    baseline: str
    ratio: float
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None

    @property
    def is_worthwhile(self) -> bool:
        """True when it is more than what rounding to percents would show as nothing."""
        return self.ratio > _LEAST_RATIO

    @property
    def saved(self) -> float:
        """Return the share of the baseline that is gone; negative for a loss."""
        return 1 - 1 / self.ratio if self.ratio else 0.0

    @property
    def words(self) -> str:
        """Say it in a few words that keep measured and predicted apart."""
        if self.kind == "traffic":
            return (
                f"{self.ratio:.2f}× fewer bytes than {self.baseline} "
                "(predicted from counts, not timed)"
            )
        interval = ""
        if self.kind == "measured" and None not in (self.lower, self.upper, self.confidence):
            interval = f" [{self.lower:.2f}, {self.upper:.2f}] at {self.confidence:.0%}"
        return f"{self.ratio:.2f}×{interval} over {self.baseline} ({self.kind})"


def gain_of(evaluation: Evaluation, traffic: Traffic) -> Gain:
    """Compare with the strongest baseline that was measured, else predicted, else by bytes."""
    least = evaluation.least_speedup
    if least is not None:
        return Gain(
            kind=least.kind,
            baseline=least.baseline,
            ratio=least.ratio,
            lower=least.lower,
            upper=least.upper,
            confidence=least.confidence,
        )
    moved = unique_bytes_moved(evaluation) if evaluation.counters else traffic.planned
    return Gain(
        kind="traffic",
        baseline=_best_name(traffic),
        ratio=traffic.best_of_mlx / moved if moved else 1.0,
    )


def _best_name(traffic: Traffic) -> str:
    named = {
        "mx.fast": traffic.fast,
        "mx.compile": traffic.compiled,
        "eager MLX": traffic.eager,
    }
    return min(named, key=lambda name: named[name])
