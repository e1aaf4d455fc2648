"""A machine whose truth is known: drifting, noisy, and home to candidates that cheat the clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelwright.evaluator.speed.timing import Bench
from kernelwright.metal.device.executable import Array


@dataclass(frozen=True, slots=True)
class Noise:
    """How a machine's clock lies."""

    jitter: float = 0.01
    """Relative standard deviation of an ordinary launch."""
    tail_chance: float = 0.03
    """Chance that a sample is hit by something else on the machine."""
    tail_size: float = 0.5
    """Mean relative size of such a hit."""
    drift: float = 0.0
    """Relative slow-down per second, as a chip that warms up."""
    layout: float = 0.01
    """Relative standard deviation of what a set of buffers costs by where it happens to lie."""


@dataclass
class Machine:
    """A clock that only launches advance."""

    noise: Noise
    random: np.random.Generator
    time_s: float = 0.0

    def now_s(self) -> float:
        """Return the machine's own time."""
        return self.time_s

    def spend(self, nanoseconds: float) -> None:
        """Let a sample's true cost pass, slowed by drift, jitter and interruptions."""
        slow = 1.0 + self.noise.drift * self.time_s
        factor = slow * float(np.exp(self.random.normal(0, self.noise.jitter)))
        if self.random.random() < self.noise.tail_chance:
            factor *= 1.0 + float(self.random.exponential(self.noise.tail_size))
        self.time_s += nanoseconds * factor * 1e-9


Cost = Callable[[int, Sequence[int]], float]
"""(calls so far, slots of this launch) -> true nanoseconds of the whole launch."""
Answer = Callable[[int, Sequence[int]], float]
"""(slot asked for, slots of the last launch) -> the value that the outputs hold."""


def right_answer(slot: int, _: Sequence[int]) -> float:
    """Return what an honest arm computes for a slot."""
    return float(slot) + 1.0


def judge_answer(slot: int, outputs: tuple[Array, ...]) -> str:
    """Compare outputs with the right answer, as an evaluator's parent process does."""
    if float(outputs[0][0]) == right_answer(slot, ()):
        return ""
    return f"slot {slot} holds {float(outputs[0][0])}"


@dataclass
class SyntheticArm:
    """An arm whose true cost and answers are functions."""

    machine: Machine
    name: str
    cost: Cost
    answer: Answer = right_answer
    slots: int = 64
    calls: int = 0
    layout_bias: float = 1.0
    _last: Sequence[int] = field(default_factory=tuple)

    def prepare(self, slots: Sequence[int]) -> None:
        """Nothing is done ahead of a launch."""

    def launch(self, slots: Sequence[int]) -> None:
        """Spend the true cost."""
        self._last = slots
        self.machine.spend(self.cost(self.calls, slots) * self.layout_bias)
        self.calls += len(slots)

    def outputs(self, slot: int) -> tuple[Array, ...]:
        """Return the answer for a slot."""
        return (np.full(1, self.answer(slot, self._last), np.float32),)


def steady(nanoseconds: float, overhead_ns: float = 0.0) -> Cost:
    """Return the cost of an honest kernel: so much for each launch."""
    return lambda _, slots: (nanoseconds + overhead_ns) * len(slots)


def bench_of(
    machine: Machine,
    candidate: SyntheticArm,
    baselines: dict[str, Cost],
    overhead_ns: float = 100.0,
) -> Bench:
    """Set a candidate against baselines of known cost; every arm lies in memory by chance."""

    def arm(name: str, cost: Cost) -> SyntheticArm:
        bias = float(np.exp(machine.random.normal(0, machine.noise.layout)))
        return SyntheticArm(machine, name, cost, layout_bias=bias)

    candidate.layout_bias *= float(np.exp(machine.random.normal(0, machine.noise.layout)))
    first = next(iter(baselines.values()))
    return Bench(
        clock=machine,
        candidate=candidate,
        baselines=tuple(arm(name, cost) for name, cost in baselines.items()),
        canary=arm("canary", steady(50_000.0)),
        make_twin=lambda: arm("twin", first),
        empty=arm("empty", steady(overhead_ns)),
    )
