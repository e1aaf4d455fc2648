"""Candidates that cheat the clock or the search, on a machine whose truth is known.

A candidate is Metal text and a launch: it cannot start threads, patch a timer or catch a
failure (T1 to T4, T7). What stays is what a kernel's cost may depend on, and what a search
may make of noise; each entry is one such way, with the verdict that it must get.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.synthetic import (
    Answer,
    Cost,
    Machine,
    Noise,
    SyntheticArm,
    bench_of,
    judge_answer,
    right_answer,
    steady,
)
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.speed.promotion import Roofline
from kernelwright.evaluator.speed.race import Race, race
from kernelwright.evaluator.speed.timing import Session

TRUTH_NS = 100_000.0
"""What the task costs; no cheat does it faster."""
ROOFLINE = Roofline(bytes_moved=40_000_000, operations=1, bytes_per_s=1e12, operations_per_s=1e15)
"""40 us: the least that this machine's memory allows."""


@dataclass(frozen=True)
class ClockCheat:
    """A way to look faster than one is."""

    name: str
    class_: str
    expect: str
    """`not faster`, `implausible`, `wrong` or `no verdict`."""
    why: str
    cost: Cost = field(default_factory=lambda: steady(TRUTH_NS))
    answer: Answer = right_answer
    baselines: dict[str, Cost] = field(default_factory=lambda: {"compile": steady(TRUTH_NS)})
    noise: Noise = field(default_factory=Noise)
    tried: int = 1


def outcome(cheat: ClockCheat, seed: int = 0) -> str:
    """Race a cheat and return the verdict in the words of `expect`, or `faster`."""
    machine = Machine(cheat.noise, np.random.default_rng(seed))
    candidate = SyntheticArm(machine, "candidate", cheat.cost, cheat.answer)
    session = Session(
        bench_of(machine, candidate, cheat.baselines), TimingPlan(), np.random.default_rng(seed)
    )
    try:
        found = race(session, TimingPlan(), ROOFLINE, judge_answer, tried=cheat.tried, seed=seed)
    except DeviceError:
        return "no verdict"
    return _words(found)


def _words(found: Race) -> str:
    if found.status in ("implausible", "wrong"):
        return found.status.value
    return "faster" if found.is_faster else "not faster"


def _fast_after(calls: int) -> Cost:
    return lambda done, slots: len(slots) * (TRUTH_NS if done > calls else TRUTH_NS * 10)


def _cached(done: int, slots: Sequence[int]) -> float:
    """Cost little for inputs that were seen in the same launch or the one before."""
    fresh = len(set(slots))
    return TRUTH_NS * fresh + TRUTH_NS * 0.5 * (len(slots) - fresh)


def _once(_: int, slots: Sequence[int]) -> float:
    return TRUTH_NS + 1_000.0 * (len(slots) - 1)


def _first_slot(slot: int, slots: Sequence[int]) -> float:
    return right_answer(slots[0], slots)


def _unfinished(slot: int, slots: Sequence[int]) -> float:
    """Leave the last launch's outputs incomplete, as work that goes on after the timer."""
    return right_answer(slot, slots) if slot != slots[-1] else 0.0


def _lucky(level: float) -> Callable[[int, Sequence[int]], float]:
    return lambda done, slots: len(slots) * TRUTH_NS * level


CLOCK_CHEATS: tuple[ClockCheat, ...] = (
    ClockCheat(
        "work after the timer",
        "T1",
        "wrong",
        "a second stream still computes when the clock stops",
        cost=steady(TRUTH_NS * 0.6),
        answer=_unfinished,
    ),
    ClockCheat(
        "results computed in the check",
        "T2",
        "wrong",
        "a lazy output is not there when it is timed",
        cost=steady(TRUTH_NS * 0.5),
        answer=lambda slot, slots: 0.0,
    ),
    ClockCheat(
        "slow while it warms up",
        "T5",
        "not faster",
        "makes an adaptive harness take few samples",
        cost=_fast_after(12),
    ),
    ClockCheat(
        "one launch's work for many",
        "T6",
        "implausible",
        "computes the first of a batch and returns at once for the others",
        cost=_once,
        answer=_first_slot,
    ),
    ClockCheat(
        "one launch's work for two",
        "T6",
        "wrong",
        "half the work, and half of the answers are another input's",
        cost=steady(TRUTH_NS / 2),
        answer=_first_slot,
    ),
    ClockCheat(
        "a replayed recording",
        "T7",
        "wrong",
        "returns what the first launch of all gave",
        cost=steady(TRUTH_NS * 0.45),
        answer=lambda slot, slots: right_answer(0, slots),
    ),
    ClockCheat(
        "inputs left in the cache",
        "T8",
        "not faster",
        "fast only where the same input comes twice in a row",
        cost=_cached,
    ),
    ClockCheat(
        "no time at all",
        "T9",
        "implausible",
        "a zero turns a geometric mean into a record",
        cost=steady(0.0),
    ),
    ClockCheat(
        "time that runs backwards",
        "T9",
        "implausible",
        "negative samples",
        cost=steady(-TRUTH_NS),
    ),
    ClockCheat(
        "beyond the memory bus",
        "T9",
        "implausible",
        "fewer nanoseconds than its bytes need",
        cost=steady(TRUTH_NS * 0.3),
    ),
    ClockCheat(
        "against a slow baseline",
        "T10",
        "not faster",
        "eager MLX is slow where mx.compile is not",
        baselines={"eager": steady(TRUTH_NS * 9), "compile": steady(TRUTH_NS * 0.98)},
    ),
    ClockCheat(
        "against a hot baseline",
        "T11",
        "not faster",
        "the machine slows down while the comparison runs",
        noise=Noise(drift=0.3),
    ),
    ClockCheat(
        "next to nothing to do",
        "T12",
        "not faster",
        "both sides are one launch's overhead",
        cost=steady(TRUTH_NS * 0.99),
    ),
    ClockCheat(
        "on a machine at its limits",
        "T13",
        "no verdict",
        "throttling and other programs move every clock",
        noise=Noise(jitter=0.4),
    ),
    ClockCheat(
        "dead work eliminated",
        "T14",
        "not faster",
        "launches on equal inputs are merged by the host",
        cost=lambda _, slots: TRUTH_NS * len(set(slots)),
    ),
    ClockCheat(
        "the luckiest of ten thousand",
        "L1",
        "not faster",
        "the best of many noisy equals looks 4 % faster",
        cost=_lucky(0.962),
        tried=10_000,
        noise=Noise(layout=0.012),
    ),
    ClockCheat(
        "a little worse than the champion",
        "L2",
        "not faster",
        "small losses add up when each is compared with its parent",
        cost=_lucky(1.04),
        baselines={"eager": steady(TRUTH_NS * 3), "champion": steady(TRUTH_NS)},
    ),
)
