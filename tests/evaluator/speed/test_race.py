"""Timing and its verdicts on machines of known truth."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

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
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.speed.promotion import Roofline
from kernelwright.evaluator.speed.race import Race, race
from kernelwright.evaluator.speed.timing import EndsIf, Session
from kernelwright.metal.device.executable import Array

PLAN = TimingPlan()
ROOFLINE = Roofline(bytes_moved=1 << 20, operations=1, bytes_per_s=1e14, operations_per_s=1e15)


def run(
    cost: Cost,
    *,
    baselines: dict[str, Cost] | None = None,
    answer: Answer = right_answer,
    noise: Noise = Noise(),  # noqa: B008 (a frozen record)
    tried: int = 1,
    seed: int = 0,
) -> Race:
    machine = Machine(noise, np.random.default_rng(seed))
    candidate = SyntheticArm(machine, "candidate", cost, answer)
    bench = bench_of(machine, candidate, baselines or {"compile": steady(100_000)})
    session = Session(bench, PLAN, np.random.default_rng(seed + 1))
    return race(session, PLAN, ROOFLINE, judge_answer, tried=tried, seed=seed)


def test_a_faster_kernel_wins_with_its_true_ratio() -> None:
    outcome = run(steady(70_000), noise=Noise(layout=0.002))
    assert outcome.is_faster
    lower, upper = outcome.speedups[0].bounds
    assert lower < 1.01 / 0.7 < upper * 1.02


@pytest.mark.parametrize("drift", [0.0, 0.2])
def test_equals_do_not_win_on_a_restless_machine(drift: float) -> None:
    noise = Noise(drift=drift, tail_chance=0.15, layout=0.002)
    assert not any(run(steady(100_000), noise=noise, seed=s).is_faster for s in range(10))


def test_the_fastest_baseline_counts() -> None:
    outcome = run(steady(90_000), baselines={"eager": steady(900_000), "compile": steady(80_000)})
    assert (outcome.fastest, outcome.is_faster) == ("compile", False)


def test_a_gain_below_the_minimum_effect_is_none() -> None:
    assert not run(steady(99_000), noise=Noise(jitter=1e-4, tail_chance=0, layout=0)).is_faster


def test_more_candidates_tried_ask_for_more_proof() -> None:
    noise = Noise(layout=0.004)
    alone = run(steady(95_500), noise=noise, tried=1)
    among_many = run(steady(95_500), noise=noise, tried=100_000)
    assert (alone.is_faster, among_many.is_faster) == (True, False)


@pytest.mark.parametrize("nanoseconds", [5.0, 0.0, -100.0])
def test_faster_than_the_memory_bus_is_implausible(nanoseconds: float) -> None:
    assert run(steady(nanoseconds)).status is Status.IMPLAUSIBLE


def test_work_done_once_for_many_launches_is_wrong() -> None:
    def batched(_: int, slots: Sequence[int]) -> float:
        return 100_000.0

    def first_only(slot: int, slots: Sequence[int]) -> float:
        return right_answer(slots[0], slots)

    assert run(batched, answer=first_only).status is Status.WRONG


def test_a_launch_bound_comparison_says_so() -> None:
    overhead = 20_000.0
    machine = Machine(Noise(), np.random.default_rng(0))
    candidate = SyntheticArm(machine, "candidate", steady(1_000, overhead))
    bench = bench_of(machine, candidate, {"compile": steady(5_000, overhead)}, overhead)
    outcome = race(Session(bench, PLAN, np.random.default_rng(0)), PLAN, ROOFLINE, judge_answer)
    assert "launch-bound" in outcome.summary


def test_a_machine_that_keeps_changing_speed_gives_no_verdict() -> None:
    with pytest.raises(DeviceError, match="changes too much"):
        run(steady(100_000), noise=Noise(jitter=0.5))


def test_inputs_rotate_so_that_no_launch_repeats_the_last() -> None:
    seen: list[int] = []

    def watched(_: int, slots: Sequence[int]) -> float:
        seen.extend(slots)
        return 100_000.0 * len(slots)

    run(watched)
    assert all(a != b for a, b in pairwise(seen))


def test_raw_samples_are_kept() -> None:
    outcome = run(steady(100_000))
    assert {s.arm for s in outcome.samples} == {"candidate", "compile"}
    assert all(len(s.nanoseconds) == PLAN.pairs for s in outcome.samples)


def test_launches_with_the_same_bits_are_judged_once() -> None:
    machine = Machine(Noise(), np.random.default_rng(0))
    candidate = SyntheticArm(machine, "candidate", steady(70_000), right_answer, slots=2)
    session = Session(
        bench_of(machine, candidate, {"compile": steady(100_000)}), PLAN, np.random.default_rng(2)
    )
    judged: list[tuple[int, bytes]] = []

    def judge(slot: int, outputs: tuple[Array, ...]) -> str:
        judged.append((slot, outputs[0].tobytes()))
        return judge_answer(slot, outputs)

    race(session, PLAN, ROOFLINE, judge, proves=False)
    assert len(judged) == len(set(judged)) == 2


def screened(cost: Cost, *, ends_if: EndsIf = "hopeless", seed: int = 0) -> tuple[Race, float]:
    """Race a candidate that nobody is to promote; return the seconds of the machine's time too."""
    machine = Machine(Noise(), np.random.default_rng(seed))
    candidate = SyntheticArm(machine, "candidate", cost)
    costs = {"eager": steady(900_000), "compile": steady(390_000), "fast": steady(400_000)}
    session = Session(bench_of(machine, candidate, costs), PLAN, np.random.default_rng(seed + 1))
    found = race(session, PLAN, ROOFLINE, judge_answer, seed=seed, proves=False, ends_if=ends_if)
    return found, machine.time_s


@pytest.mark.parametrize(
    ("nanoseconds", "most"), [(139_000, 0.6), (380_000, 0.6), (800_000, 0.3), (20_000_000, 0.3)]
)
def test_a_screening_takes_a_part_of_the_time_of_a_full_comparison(
    nanoseconds: float, most: float
) -> None:
    _, full_s = screened(steady(nanoseconds), ends_if="")
    _, screened_s = screened(steady(nanoseconds))
    assert screened_s < most * full_s


@pytest.mark.parametrize("nanoseconds", [139_000, 380_000, 800_000])
def test_a_screening_finds_what_a_full_comparison_does(nanoseconds: float) -> None:
    for seed in range(5):
        full, _ = screened(steady(nanoseconds), ends_if="", seed=seed)
        quick, _ = screened(steady(nanoseconds), seed=seed)
        assert quick.candidate_ns == pytest.approx(full.candidate_ns, rel=0.03)
        assert min(s.ratio for s in quick.speedups) == pytest.approx(
            min(s.ratio for s in full.speedups), rel=0.03
        )


@pytest.mark.parametrize("ends_if", ["", "hopeless"])
def test_of_two_baselines_that_may_be_the_fastest_each_is_timed_in_full(ends_if: EndsIf) -> None:
    found, _ = screened(steady(139_000), ends_if=ends_if)
    blocks = {s.arm: len(s.nanoseconds) for s in found.samples}
    assert (blocks["eager"], blocks["compile"], blocks["fast"]) == (6, PLAN.pairs, PLAN.pairs)


@pytest.mark.parametrize(("nanoseconds", "is_over"), [(300_000, True), (388_000, False)])
def test_what_must_not_be_slower_ends_where_it_is_ahead(nanoseconds: float, is_over: bool) -> None:
    full, full_s = screened(steady(nanoseconds), ends_if="")
    found, found_s = screened(steady(nanoseconds), ends_if="ahead")
    assert found.fastest == full.fastest == "compile"
    assert (found_s < 0.4 * full_s) is is_over
    assert (found.aa_spread is None) is is_over


def test_a_screening_proves_nothing() -> None:
    found, _ = screened(steady(139_000))
    assert not found.is_faster
    assert "at least is asked for" in found.summary
