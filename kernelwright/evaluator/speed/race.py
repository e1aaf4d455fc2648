"""From raw samples to a verdict on speed: screen, corrected test, confirmation elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.evaluation import Samples, Speedup, Status
from kernelwright.evaluator.oracle.accuracy import same_bytes
from kernelwright.evaluator.oracle.parallel import side_by_side
from kernelwright.evaluator.speed.promotion import (
    Roofline,
    bar_for,
    clears,
    implausibility,
    interval_of,
    speedup_of,
)
from kernelwright.evaluator.speed.statistics import spread
from kernelwright.evaluator.speed.timing import EndsIf, Laboratory, Measurements, Order
from kernelwright.metal.device.executable import Array

Judge = Callable[[int, tuple[Array, ...]], str]
"""Says what is wrong with the outputs of a slot; empty when nothing is."""
TWINS = 12
_LAUNCH_BOUND = 3.0
"""Below this many times the dispatch floor, a ratio mostly compares overheads."""


@dataclass(frozen=True)
class Race:
    """The outcome of timing a correct candidate."""

    status: Status
    """`CORRECT` (timed), `IMPLAUSIBLE` or `WRONG` (a timed output was)."""
    is_faster: bool
    summary: str
    speedups: tuple[Speedup, ...] = ()
    samples: tuple[Samples, ...] = ()
    fastest: str = ""
    """The baseline that counts."""
    candidate_ns: float = 0.0
    """Median time of a launch beside the fastest baseline."""
    aa_spread: float | None = None
    """None where it was not asked for."""
    floor_ns: float = 0.0
    rejected_blocks: int = 0


def race(
    laboratory: Laboratory,
    plan: TimingPlan,
    roofline: Roofline,
    judge: Judge,
    *,
    tried: int = 1,
    reverse: bool = False,
    seed: int = 0,
    proves: bool = True,
    ends_if: EndsIf = "",
) -> Race:
    """Time a candidate against every baseline and say whether it beats the fastest.

    `tried` counts the candidates of the search up to this one: the more there were, the more
    proof is asked for, on blocks that no decision has seen before. Without `proves` those are
    not taken, and nothing is said to be faster. One that ends early, see `Order.ends_if`, says
    less: where candidates are ordered it does not ask what equals differ by.
    """
    assert not (proves and ends_if)
    random = np.random.default_rng(seed)
    twins = 0 if ends_if == "hopeless" else TWINS
    screen = laboratory.measure(Order(plan.pairs, twins=twins, reverse=reverse, ends_if=ends_if))
    if refused := _refuse(screen, plan, roofline, judge):
        return refused
    intervals = {
        name: interval_of(comparison, plan, random)
        for name, comparison in screen.comparisons.items()
    }
    fastest = min(intervals, key=lambda name: intervals[name].ratio)
    aa_spread = spread(screen.noise) if len(screen.noise) else None
    speedups = tuple(speedup_of(name, interval) for name, interval in intervals.items())
    bar = bar_for(plan, tried, aa_spread or 0.0)
    outcome = Race(
        Status.CORRECT,
        False,
        _words(
            fastest, screen, intervals[fastest].ratio, bar.margin, is_least=ends_if == "hopeless"
        ),
        speedups,
        _samples(screen, fastest),
        fastest,
        float(np.median(screen.comparisons[fastest].candidate_ns)),
        aa_spread,
        screen.floor_ns,
        screen.rejected_blocks,
    )
    if not proves or intervals[fastest].lower <= 1 + bar.margin:
        return outcome
    fresh = laboratory.measure(Order(bar.blocks, baselines=(fastest,), reverse=reverse))
    if refused := _refuse(fresh, plan, roofline, judge):
        return replace(refused, samples=(*outcome.samples, *marked(refused.samples, "test")))
    unbiased = speedup_of(fastest, interval_of(fresh.comparisons[fastest], plan, random))
    return replace(
        outcome,
        # The screening chose the fastest baseline, and often the candidate: it flatters both.
        speedups=tuple(unbiased if s.baseline == fastest else s for s in speedups),
        is_faster=clears(fresh.comparisons[fastest].ratios, bar),
        samples=(*outcome.samples, *marked(_samples(fresh, fastest), "test")),
        rejected_blocks=screen.rejected_blocks + fresh.rejected_blocks,
    )


def _refuse(
    measured: Measurements, plan: TimingPlan, roofline: Roofline, judge: Judge
) -> Race | None:
    """Return a verdict against samples that cannot be true or came with wrong outputs."""
    for comparison in measured.comparisons.values():
        if reason := implausibility(comparison.candidate_ns, roofline, plan):
            samples = _samples(measured, next(iter(measured.comparisons)))
            return Race(Status.IMPLAUSIBLE, False, f"{reason}.", samples=samples)
    for problem in side_by_side(lambda seen: judge(*seen), _different(measured.observed)):
        if problem:
            summary = f"a timed launch gave a wrong result: {problem}."
            samples = _samples(measured, next(iter(measured.comparisons)))
            return Race(Status.WRONG, False, summary, samples=samples)
    return None


def _different(
    observed: Sequence[tuple[int, tuple[Array, ...]]],
) -> list[tuple[int, tuple[Array, ...]]]:
    """Leave out what has the very bits of another launch on the same inputs."""
    kept: list[tuple[int, tuple[Array, ...]]] = []
    for slot, outputs in observed:
        if not any(slot == other and _is_same(outputs, seen) for other, seen in kept):
            kept.append((slot, outputs))
    return kept


def _is_same(outputs: Sequence[Array], others: Sequence[Array]) -> bool:
    return len(outputs) == len(others) and all(map(same_bytes, outputs, others))


def _words(
    fastest: str, measured: Measurements, ratio: float, margin: float, *, is_least: bool
) -> str:
    candidate_ns = float(np.median(measured.comparisons[fastest].candidate_ns))
    words = (
        f"{candidate_ns / 1e3:.3g} us, {ratio:.3g}x the speed of {fastest}, the fastest baseline; "
        f"{1 + margin:.3g}x {'at least ' if is_least else ''}is asked for"
    )
    if candidate_ns < _LAUNCH_BOUND * measured.floor_ns:
        words += f"; launch-bound (an empty launch takes {measured.floor_ns / 1e3:.3g} us)"
    return words


def _samples(measured: Measurements, fastest: str) -> tuple[Samples, ...]:
    arms = [
        sample
        for name, comparison in measured.comparisons.items()
        for sample in (
            Samples(
                arm="candidate" if name == fastest else f"candidate vs {name}",
                nanoseconds=comparison.candidate_ns,
            ),
            Samples(arm=name, nanoseconds=comparison.baseline_ns),
        )
    ]
    return tuple(arms)


def marked(samples: Sequence[Samples], mark: str) -> tuple[Samples, ...]:
    """Name samples apart from those of the same arms that were taken before."""
    return tuple(s.model_copy(update={"arm": f"{s.arm}, {mark}"}) for s in samples)
