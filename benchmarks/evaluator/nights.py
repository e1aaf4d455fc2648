"""Simulates whole nights of search in which nothing is faster: how often is something promoted?

Each night tries 10,000 candidates that cost exactly what the baseline costs, on a machine with
jitter, heavy tails, drift, and a bias for every set of buffers in every process. Three
searches see the same samples:

- naive: the best of three runs against the best of three of the baseline, as most tools do;
- paired: interleaved blocks and a 95 % bootstrap bound above 1.02, no correction, no second look;
- kernelwright: the same, with the margin and level of its bar for the number of candidates tried,
  fresh blocks for the test that counts, then a confirmation in a fresh process.

    python -m benchmarks.evaluator nights [--nights 200] [--plot docs/images/nights.svg]
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelwright.evaluator.attacks.synthetic import Noise
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.speed.promotion import bar_for, clears
from kernelwright.evaluator.speed.race import TWINS
from kernelwright.evaluator.speed.statistics import Reals, bootstrap, spread
from kernelwright.evaluator.speed.timing import BLOCKS_A_TWIN

CANDIDATES = 10_000
NOISE = Noise(jitter=0.01, tail_chance=0.05, tail_size=0.5, drift=0.05, layout=0.01)
_BLOCK_S = 0.02
_PLAN = TimingPlan()


@dataclass
class Night:
    """What one night of null candidates would have promoted, by each search."""

    naive: int = 0
    paired: int = 0
    kernelwright: int = 0


class Machine:
    """Draws samples of equals, whole candidates at a time."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def samples(self, count: int, size: int) -> Reals:
        """Return relative times: `count` arms of `size` samples, without a bias of layout."""
        times = np.exp(self.random.normal(0, NOISE.jitter, (count, size)))
        hit = self.random.random((count, size)) < NOISE.tail_chance
        return times * np.where(hit, 1 + self.random.exponential(NOISE.tail_size, times.shape), 1)

    def bias(self, count: int) -> Reals:
        """Return what each arm's place in memory costs, fixed within a process."""
        return np.exp(self.random.normal(0, NOISE.layout, count))

    def block_ratios(self, count: int, blocks: int) -> Reals:
        """Return log ratios of ABBA blocks for candidates that each have a process's biases."""
        when = np.arange(blocks) * 4 * _BLOCK_S
        order = np.array([0, 1, 2, 3]) * _BLOCK_S
        slow = 1 + NOISE.drift * (when[:, None] + order)
        arms = [self.samples(count, 2 * blocks).reshape(count, blocks, 2) for _ in range(2)]
        a = (arms[0] * slow[:, [0, 3]]).mean(axis=2) * self.bias(count)[:, None]
        b = (arms[1] * slow[:, [1, 2]]).mean(axis=2) * self.bias(count)[:, None]
        ratios: Reals = np.log(b / a)
        return ratios


def simulate(seed: int, candidates: int = CANDIDATES) -> Night:
    """Run one night."""
    machine, night = Machine(seed), Night()
    night.naive = _naive(machine, candidates)
    ratios = machine.block_ratios(candidates, _PLAN.pairs)
    medians = np.exp(np.median(ratios, axis=1))
    # A lower bound cannot exceed the margin where the median does not.
    for index in np.flatnonzero(medians > 1 + _PLAN.minimum_effect):
        interval = bootstrap(ratios[index], 0.95, 400, machine.random)
        night.paired += interval.lower > 1 + _PLAN.minimum_effect
        night.kernelwright += _promotes(machine, int(index) + 1, interval.lower)
    return night


def _naive(machine: Machine, candidates: int) -> int:
    best = machine.samples(candidates, 3).min(axis=1) * machine.bias(candidates)
    baseline = machine.samples(candidates, 3).min(axis=1) * machine.bias(candidates)
    return int((baseline / best > 1 + _PLAN.minimum_effect).sum())


def _promotes(machine: Machine, tried: int, screened: float) -> bool:
    """Go through the evaluator's own bar, fresh blocks and confirmation."""
    aa_spread = _aa_spread(machine)
    bar = bar_for(_PLAN, tried, aa_spread)
    if screened <= 1 + bar.margin:
        return False
    if not clears(machine.block_ratios(1, bar.blocks)[0], bar):
        return False
    again = bar_for(_PLAN, 1, aa_spread)
    return clears(machine.block_ratios(1, again.blocks)[0], again)


def _aa_spread(machine: Machine) -> float:
    medians: Reals = np.median(machine.block_ratios(TWINS, BLOCKS_A_TWIN), axis=1)
    return spread(medians)


def power(gain: float, trials: int = 200, tried: int = CANDIDATES) -> float:
    """Return how often a kernel that really is `gain` times as fast is promoted as the last."""
    machine, promoted = Machine(10_000), 0
    for _ in range(trials):
        aa_spread = _aa_spread(machine)
        bar, again = bar_for(_PLAN, tried, aa_spread), bar_for(_PLAN, 1, aa_spread)
        screen = bootstrap(
            machine.block_ratios(1, _PLAN.pairs)[0] + np.log(gain), 0.95, 400, machine.random
        )
        promoted += (
            screen.lower > 1 + bar.margin
            and clears(machine.block_ratios(1, bar.blocks)[0] + np.log(gain), bar)
            and clears(machine.block_ratios(1, again.blocks)[0] + np.log(gain), again)
        )
    return promoted / trials


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the share of nights with a false promotion; draw it where asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evaluator nights", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--nights", type=int, default=200)
    parser.add_argument("--plot", type=Path)
    chosen = parser.parse_args(arguments)
    started = time.perf_counter()
    nights = [simulate(seed) for seed in range(chosen.nights)]
    result = {
        name: {
            "nights with a false promotion": sum(getattr(n, name) > 0 for n in nights)
            / len(nights),
            "false promotions a night": float(np.mean([getattr(n, name) for n in nights])),
        }
        for name in ("naive", "paired", "kernelwright")
    }
    found = {str(gain): power(gain) for gain in (1.05, 1.1, 1.15, 1.2, 1.3)}
    result_with_power = {**result, "promoted when truly faster": found}
    print(json.dumps({"nights": len(nights), **result_with_power}, indent=2))
    print(f"{time.perf_counter() - started:.0f} s")
    if chosen.plot:
        draw(result, len(nights), chosen.plot)


def draw(result: dict[str, dict[str, float]], nights: int, path: Path) -> None:
    """Draw both figures of each search as bars."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kernelwright"
    from matplotlib import pyplot as plt

    names = {"naive": "best of three", "paired": "paired, 95 %", "kernelwright": "Kernelwright"}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    colours = ("#c44e52", "#dd8452", "#55a868")
    share = [100 * result[n]["nights with a false promotion"] for n in names]
    count = [result[n]["false promotions a night"] for n in names]
    for axis, values, form, title in (
        (left, share, "%.1f %%", "nights with a false promotion"),
        (right, count, "%.4g", "false promotions a night"),
    ):
        bars = axis.bar(list(names.values()), values, color=colours)
        axis.bar_label(bars, fmt=form, padding=2)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.15)
    left.axhline(5, color="black", linewidth=0.8, linestyle="--")
    left.text(2.45, 7, "5 %", ha="right", fontsize=8)
    right.set_yscale("symlog", linthresh=1)
    figure.suptitle(f"{nights} nights of 10,000 candidates, none faster", fontsize=11)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
