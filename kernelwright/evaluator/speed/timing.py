"""How launches are timed: interleaved blocks, rotating inputs, a canary, checked outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.speed.statistics import Reals, log_ratios
from kernelwright.metal.device.executable import Array

_RECENT = 9
"""Looks at the canary that its usual time is the median of."""
_FEWEST_BLOCKS = 12
"""Of a short comparison as many may be thrown away as of one of so many blocks."""
BLOCKS_A_TWIN = 3
_LAST_SHARE = 0.5
"""Of the outputs that are looked at, those of a sample's last launch."""
_LOOK = 6
"""Blocks after which what is decided is decided: six of one baseline that are all apart from six of
another come about by chance in 1 of 924 orders."""
_HOPELESS = 0.9
"""Of the speed of a baseline: a candidate slower in every block of the look needs no more."""
_MOST_REJECTED = 3
"""Blocks that may be thrown away for each that is kept before the machine is too restless."""


EndsIf = Literal["", "hopeless", "ahead"]


class Clock(Protocol):
    """Tells the time."""

    def now_s(self) -> float:
        """Return seconds since a fixed moment."""


class Arm(Protocol):
    """Something to time: a candidate or a baseline, with inputs of its own in every slot."""

    @property
    def name(self) -> str:
        """Return `candidate`, or the baseline's name."""

    @property
    def slots(self) -> int:
        """Return how many different sets of inputs are ready on the device."""

    def prepare(self, slots: Sequence[int]) -> None:
        """Do on the host, off the clock, what can be done before the next launch."""

    def launch(self, slots: Sequence[int]) -> None:
        """Run once on each of the slots' inputs, and return when all outputs are complete.

        As few synchronisations as memory allows, so that their cost hides no kernel; yet no
        input twice in one evaluation, where a host might merge equal work.
        """

    def outputs(self, slot: int) -> tuple[Array, ...]:
        """Return what the last launch on a slot's inputs left."""


@dataclass(frozen=True)
class Bench:
    """What is compared, on one device in one process."""

    clock: Clock
    candidate: Arm
    baselines: tuple[Arm, ...]
    canary: Arm
    """A fixed copy kernel, whose time shows when the machine itself changes speed."""
    make_twin: Callable[[], Arm]
    """Makes the first baseline once more, in new buffers: what A/A noise is measured with."""
    empty: Arm
    """A kernel that does nothing: the floor under every launch."""


@dataclass(frozen=True)
class Comparison:
    """Raw samples of two arms, taken side by side; each entry is one ABBA block."""

    candidate_ns: tuple[float, ...]
    baseline_ns: tuple[float, ...]
    rejected_blocks: int = 0

    @property
    def ratios(self) -> Reals:
        """Log ratios of the blocks, above 0 where the candidate is faster."""
        return log_ratios(self.candidate_ns, self.baseline_ns)

    def followed_by(self, later: "Comparison") -> "Comparison":
        """Join with blocks that were taken later."""
        return Comparison(
            self.candidate_ns + later.candidate_ns,
            self.baseline_ns + later.baseline_ns,
            self.rejected_blocks + later.rejected_blocks,
        )


@dataclass
class Session:
    """Times the arms of a bench by a plan; `random` orders blocks and picks outputs to check."""

    bench: Bench
    plan: TimingPlan
    random: np.random.Generator
    observed: list[tuple[int, tuple[Array, ...]]] = field(default_factory=list)
    """(slot, outputs) of timed launches of the candidate, to be judged by someone else."""
    _chosen: int = 0
    """Samples chosen for a look so far, of which `observed` keeps an even draw."""
    _next_slot: dict[str, int] = field(default_factory=dict)
    _canary_ns: list[float] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    """Launches of a sample, by arm; twins of a baseline are one to this."""

    def repeats(self, arm: Arm) -> int:
        """Return how many launches make a sample long enough, after warming the arm up."""
        for _ in range(self.plan.warmups):
            self._time(arm, 1)
        if arm.name not in self._counts:
            self._counts[arm.name] = self._count(arm)
        return self._counts[arm.name]

    def _count(self, arm: Arm) -> int:
        count = 1
        while count < self.plan.maximum_repeats:
            if self._time(arm, count) * count >= self.plan.minimum_sample_s * 1e9:
                break
            count *= 2
        return count

    def compare(
        self, candidate: Arm, baseline: Arm, blocks: int, *, reverse: bool = False
    ) -> Comparison:
        """Take `blocks` valid ABBA blocks; `reverse` lets the baseline go first.

        Raises:
            DeviceError: the canary moved so often that nothing can be measured now.
        """
        counts = {arm.name: self.repeats(arm) for arm in (candidate, baseline)}
        canary_count = self.repeats(self.bench.canary)
        kept: list[tuple[float, float]] = []
        rejected = 0
        while len(kept) < blocks:
            block = self._block(candidate, baseline, counts, canary_count, reverse)
            if block is None:
                rejected += 1
                if rejected > _MOST_REJECTED * max(blocks, _FEWEST_BLOCKS):
                    raise DeviceError(
                        "the machine's speed changes too much to measure; close other programs, "
                        "let it cool and try again."
                    )
                continue
            kept.append(block)
        return Comparison(
            tuple(a for a, _ in kept), tuple(b for _, b in kept), rejected_blocks=rejected
        )

    def _block(
        self,
        candidate: Arm,
        baseline: Arm,
        counts: dict[str, int],
        canary_count: int,
        reverse: bool,
    ) -> tuple[float, float] | None:
        """Time A B B A between two looks at the canary; None when it moved."""
        order = (candidate, baseline, baseline, candidate)
        if reverse != bool(self.random.integers(2)):
            order = (baseline, candidate, candidate, baseline)
        before = self._time(self.bench.canary, canary_count)
        times: dict[str, list[float]] = {candidate.name: [], baseline.name: []}
        for arm in order:
            times[arm.name].append(self._time(arm, counts[arm.name]))
        after = self._time(self.bench.canary, canary_count)
        if not self._is_calm(before, after):
            return None
        # The sum over A B B A cancels a drift that is linear in time.
        return float(np.mean(times[candidate.name])), float(np.mean(times[baseline.name]))

    def _is_calm(self, before: float, after: float) -> bool:
        self._canary_ns.extend((before, after))
        # The recent past only: pairing takes care of a slow drift.
        usual = float(np.median(self._canary_ns[-_RECENT:]))
        limit = self.plan.canary_tolerance * usual
        return abs(before - usual) <= limit and abs(after - usual) <= limit

    def _time(self, arm: Arm, count: int) -> float:
        """Return nanoseconds per launch over `count` launches, each on the next slot's inputs."""
        start = self._next_slot.get(arm.name, 0)
        slots = [(start + i) % arm.slots for i in range(count)]
        self._next_slot[arm.name] = (start + count) % arm.slots
        arm.prepare(slots)
        began = self.bench.clock.now_s()
        arm.launch(slots)
        elapsed_s = self.bench.clock.now_s() - began
        if arm is self.bench.candidate and self.random.random() < self.plan.verified_share:
            # The last launch has the most to gain from work after the clock has stopped.
            is_last = self.random.random() < _LAST_SHARE
            self._observe(arm, slots[-1] if is_last else int(self.random.choice(slots)))
        return elapsed_s * 1e9 / count

    def _observe(self, arm: Arm, slot: int) -> None:
        """Keep a slot's outputs, or not: every chosen sample has the same chance to be kept."""
        self._chosen += 1
        if len(self.observed) < self.plan.most_verified:
            self.observed.append((slot, arm.outputs(slot)))
            return
        place = int(self.random.integers(self._chosen))
        if place < len(self.observed):
            self.observed[place] = (slot, arm.outputs(slot))

    def measure(self, order: "Order") -> "Measurements":
        """Carry out an order."""
        chosen = [
            b for b in self.bench.baselines if not order.baselines or b.name in order.baselines
        ]
        first = min(_LOOK, order.blocks)
        comparisons = {b.name: self._compare_with(b, first, order) for b in chosen}
        noise: list[float] = []
        if not order.is_over(tuple(comparisons.values())):
            self._go_on(chosen, comparisons, order)
            noise = [self._compare_with_a_twin() for _ in range(order.twins)]
        observed, self.observed, self._chosen = tuple(self.observed), [], 0
        return Measurements(comparisons, np.array(noise), self._floor_ns(), observed)

    def _go_on(self, chosen: Sequence[Arm], looks: dict[str, Comparison], order: "Order") -> None:
        """Take the other blocks of those baselines that may be the fastest."""
        least = min(look.ratios.max() for look in looks.values())
        for baseline in chosen:
            look = looks[baseline.name]
            left = order.blocks - len(look.candidate_ns)
            if left and look.ratios.min() <= least:
                looks[baseline.name] = look.followed_by(self._compare_with(baseline, left, order))

    def _compare_with(self, baseline: Arm, blocks: int, order: "Order") -> Comparison:
        return self.compare(self.bench.candidate, baseline, blocks, reverse=order.reverse)

    def _compare_with_a_twin(self) -> float:
        """Return the log ratio of equals: what another place in memory makes of a baseline.

        The median of some blocks, for the test of a candidate does not hang on one block either.
        """
        twin = self.bench.make_twin()
        return float(np.median(self.compare(twin, self.bench.baselines[0], BLOCKS_A_TWIN).ratios))

    def _floor_ns(self) -> float:
        """Return what a launch costs that does nothing."""
        count = self.repeats(self.bench.empty)
        return float(np.median([self._time(self.bench.empty, count) for _ in range(5)]))


@dataclass(frozen=True)
class Order:
    """What to measure: blocks against each baseline named, all of them when none is.

    Baselines that cannot be the fastest have a few blocks only.
    """

    blocks: int
    baselines: tuple[str, ...] = ()
    twins: int = 0
    """Twins of a baseline to set against it."""
    reverse: bool = False
    ends_if: EndsIf = ""
    """What ends it after those few blocks: a candidate slower than a baseline in every one, where
    candidates are ordered; one that is faster than all, where none shall be slower."""

    def is_over(self, looks: Sequence[Comparison]) -> bool:
        """Say whether the first blocks tell enough."""
        if self.ends_if == "hopeless":
            return any(look.ratios.max() < np.log(_HOPELESS) for look in looks)
        return self.ends_if == "ahead" and all(look.ratios.min() > 0 for look in looks)


@dataclass(frozen=True)
class Measurements:
    """Raw results of an order."""

    comparisons: dict[str, Comparison]
    noise: Reals
    """Log ratios of equals."""
    floor_ns: float
    observed: tuple[tuple[int, tuple[Array, ...]], ...] = ()

    @property
    def rejected_blocks(self) -> int:
        """Blocks of all comparisons that were thrown away."""
        return sum(c.rejected_blocks for c in self.comparisons.values())


_FEWEST_SLOTS, _MOST_SLOTS = 2, 64
_OUTPUT_BYTES = 1 << 30
"""Outputs that one arm keeps of its slots."""


def slots_for(plan: TimingPlan, input_bytes: int, output_bytes: int) -> int:
    """Return how many sets of inputs rotate, so that no cache holds them all."""
    wanted = -(-plan.rotation_bytes // max(input_bytes, 1))
    most = min(_MOST_SLOTS, _OUTPUT_BYTES // max(output_bytes, 1))
    return max(min(wanted, most), _FEWEST_SLOTS)


class Laboratory(Protocol):
    """Measures in one process; a confirmation takes another laboratory."""

    def measure(self, order: Order) -> Measurements:
        """Carry out an order.

        Raises:
            DeviceError: the machine is too restless to measure.
        """
