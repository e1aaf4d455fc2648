"""The predictor held to account: predicted and measured time side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import spearmanr

from benchmarks.suite.counting import Key, TaskKey
from benchmarks.suite.findings import INTRODUCTION
from benchmarks.suite.fitting import FITTED, Candidate, predict_each_unseen
from benchmarks.suite.timing import KernelTime, Timing
from kernelwright.evaluator.speed.prediction import predict_program
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import ChipProfile, find_profile
from kernelwright.metal.perf.prediction import estimate_instructions

_FEWEST = 4
"""Candidates below which a task's ranking says little."""
_WANTED = 0.8
_ERRORS = (0.01, 0.05, 0.12)
"""Standard deviations of predictors to compare with."""
_DRAWS = 20
_APART = 1.05
"""Times that differ by less are as good as each other to who chooses."""


@dataclass(frozen=True)
class Judged:
    """A candidate beside its predictions."""

    candidate: Candidate
    """Measured by the GPU's clock."""
    time: KernelTime
    predicted_us: float
    unseen_us: float
    """Predicted by constants that were fitted to other tasks."""
    executed_us: float
    """Predicted from the instructions that were executed, where they were counted."""
    bound: str

    @property
    def error(self) -> float:
        """Predicted over measured time."""
        return self.predicted_us / self.candidate.measured_us


def measured_profile(chip: str, copy_bytes_per_s: float, launch_us: float) -> ChipProfile:
    """Return a chip's profile with the copy bandwidth and the launch that were measured."""
    profile = find_profile(chip)
    peak = profile.bandwidth_gb_s * 1e9
    share = min(copy_bytes_per_s / peak, 1.0)
    return profile.model_copy(update={"launch_us": launch_us, "bandwidth_efficiency": share})


def judge(
    timing: Timing, counted: Mapping[Key, tuple[Counters, ...]]
) -> dict[TaskKey, list[Judged]]:
    """Predict every candidate that was counted and timed."""
    profile = measured_profile(timing.chip, timing.copy_bytes_per_s, timing.launch_us)
    times: dict[TaskKey, list[KernelTime]] = {}
    for kernel in timing.kernels:
        if kernel.key in counted:
            times.setdefault(kernel.key[:3], []).append(kernel)
    tasks = {
        key: [Candidate(k.schedule, k.median_us, counted[k.key]) for k in kernels]
        for key, kernels in times.items()
    }
    unseen = predict_each_unseen(tasks, profile)
    return {
        key: [
            _judged(candidate, time, unseen_us, profile)
            for candidate, time, unseen_us in zip(task, times[key], unseen[key], strict=True)
        ]
        for key, task in tasks.items()
    }


def _judged(
    candidate: Candidate, time: KernelTime, unseen_us: float, profile: ChipProfile
) -> Judged:
    predicted = predict_program(candidate.counters, profile)
    exact = predict_program(candidate.counters, _with_executed(candidate, time, profile))
    return Judged(
        candidate, time, predicted.microseconds, unseen_us, exact.microseconds, predicted.bound
    )


def _with_executed(candidate: Candidate, time: KernelTime, profile: ChipProfile) -> ChipProfile:
    """Return the profile whose costs add up to the instructions that a candidate executed."""
    if time.instructions is None:
        return profile
    estimate = sum(estimate_instructions(counters, profile) for counters in candidate.counters)
    costs = profile.core.costs
    scaled = {name: cost * time.instructions / estimate for name, cost in costs}
    core = profile.core.model_copy(update={"costs": costs.model_copy(update=scaled)})
    return profile.model_copy(update={"core": core})


def markdown(timing: Timing, tasks: Mapping[TaskKey, Sequence[Judged]]) -> str:
    """Render how well predictions rank and size what was measured."""
    judged = [one for task in tasks.values() for one in task]
    ranked = {k: v for k, v in tasks.items() if len(v) >= _FEWEST}
    pairs = [pair for task in ranked.values() for pair in combinations(task, 2)]
    driver = f", driver {timing.driver}" if timing.driver else ""
    lines = [
        INTRODUCTION,
        (
            f"{timing.chip}{driver}; {len(judged)} candidates of {len(tasks)} "
            f"tasks, each in {timing.replays} replays of a CUDA graph of its launches on rotating "
            "inputs; counted on the simulator."
        ),
        "",
        "| Spearman within a task | median | tasks of at least 0.8 | all candidates together |",
        "|---|---|---|---|",
        _summary_row("predicted", ranked.values(), judged, _predicted),
        _summary_row("predicted by a fit to other tasks", ranked.values(), judged, _unseen),
        _summary_row("predicted from what was executed", ranked.values(), judged, _executed),
        *(_erring_row(error, list(ranked.values())) for error in _ERRORS),
        "",
        f"- Of the faster half by prediction, the best candidate is in {_kept(ranked.values())}.",
        f"- The candidate that is predicted to be fastest takes {_regret(ranked.values())}.",
        (
            f"- Of the pairs within a task that differ by more than {_APART - 1:.0%}, "
            f"{_in_order(pairs, _are_apart)} are predicted in the right order."
        ),
        (
            f"- Of the pairs within a task whose intervals are disjoint, "
            f"{_in_order(pairs, _are_disjoint)} are predicted in the right order."
        ),
        f"- Fitted: {', '.join(f'`{name}`' for name in FITTED)}.",
        "",
        "| limited by | candidates | predicted / measured, median | 10 % | 90 % |",
        "|---|---|---|---|---|",
        *_by_bound(judged),
        "",
        (
            "| task | candidates | rank correlation | by a fit to other tasks | pairs apart, in "
            "order | fastest | within 5 % of it | slowest | predicted/measured |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
        *(
            _task_row(k, v)
            for k, v in sorted(ranked.items(), key=lambda kv: _rank(kv[1], _predicted))
        ),
    ]
    return "\n".join(lines) + "\n"


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return Spearman's coefficient; 0 where all values of a side are the same."""
    if len(set(ours)) < 2 or len(set(theirs)) < 2:
        return 0.0
    return float(spearmanr(ours, theirs).statistic)


def differ(one: KernelTime, other: KernelTime) -> bool:
    """Say whether two kernels' intervals are disjoint."""
    return one.high_us < other.low_us or other.high_us < one.low_us


Figure = Callable[[Judged], float]


def _measured(one: Judged) -> float:
    return one.candidate.measured_us


def _predicted(one: Judged) -> float:
    return one.predicted_us


def _unseen(one: Judged) -> float:
    return one.unseen_us


def _executed(one: Judged) -> float:
    return one.executed_us


def _rank(task: Sequence[Judged], figure: Figure) -> float:
    return rank_correlation([_measured(j) for j in task], [figure(j) for j in task])


def _summary_row(
    name: str, tasks: Iterable[Sequence[Judged]], all_: Sequence[Judged], figure: Figure
) -> str:
    ranks = [_rank(task, figure) for task in tasks]
    strong = sum(rank >= _WANTED for rank in ranks)
    return (
        f"| {name} | **{np.median(ranks):.2f}** | {strong} of {len(ranks)} "
        f"| {_rank(all_, figure):.2f} |"
    )


def _erring_row(error: float, tasks: Sequence[Sequence[Judged]]) -> str:
    """Say how well the measured times would rank with a random error of each."""
    random = np.random.default_rng(0)
    ranks = []
    for _ in range(_DRAWS):
        for task in tasks:
            times = np.array([_measured(j) for j in task])
            erring = times * np.exp(random.normal(0, error, len(times)))
            ranks.append(rank_correlation(times.tolist(), erring.tolist()))
    strong = sum(rank >= _WANTED for rank in ranks) / _DRAWS
    return (
        f"| the measured time, with a random error of {error:.0%} | {np.median(ranks):.2f} "
        f"| {strong:.0f} of {len(tasks)} | |"
    )


def _kept(tasks: Iterable[Sequence[Judged]]) -> str:
    kept = whole = 0
    for task in tasks:
        best = min(task, key=_measured)
        limit = float(np.median([j.predicted_us for j in task]))
        kept, whole = kept + (best.predicted_us <= limit), whole + 1
    return f"{kept} of {whole} tasks"


def _regret(tasks: Iterable[Sequence[Judged]]) -> str:
    lost = []
    for task in tasks:
        first = min(task, key=lambda j: j.predicted_us)
        lost.append(_measured(first) / min(map(_measured, task)) - 1)
    middle, high = np.percentile(lost, [50, 90])
    return (
        f"{middle:.1%} longer than the fastest at the median, {high:.0%} in the tenth of the "
        f"tasks where it is worst"
    )


def _in_order(
    pairs: Iterable[tuple[Judged, Judged]], counts: Callable[[Judged, Judged], bool]
) -> str:
    """Say how many of the pairs that count are predicted in the right order."""
    right = whole = 0
    for one, other in pairs:
        if counts(one, other):
            faster, slower = sorted((one, other), key=_measured)
            right += slower.predicted_us > faster.predicted_us
            whole += 1
    return f"{right} of {whole}"


def _are_disjoint(one: Judged, other: Judged) -> bool:
    return differ(one.time, other.time)


def _are_apart(one: Judged, other: Judged) -> bool:
    faster, slower = sorted(map(_measured, (one, other)))
    return slower > _APART * faster


def _by_bound(judged: Sequence[Judged]) -> list[str]:
    groups: Mapping[str, list[float]] = {j.bound: [] for j in judged}
    for j in judged:
        groups[j.bound].append(j.error)
    rows = []
    for bound, errors in sorted(groups.items(), key=lambda item: -len(item[1])):
        low, middle, high = np.percentile(errors, [10, 50, 90])
        rows.append(f"| {bound} | {len(errors)} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return rows


def _task_row(key: TaskKey, task: Sequence[Judged]) -> str:
    times = [_measured(j) for j in task]
    near = sum(time <= _APART * min(times) for time in times)
    middle = float(np.median([j.error for j in task]))
    return (
        f"| {key[0]} | {len(task)} | {_rank(task, _predicted):.2f} | {_rank(task, _unseen):.2f} "
        f"| {_in_order(combinations(task, 2), _are_apart)} | {min(times):.0f} µs | {near} "
        f"| {max(times):.0f} µs | {middle:.2f} |"
    )
