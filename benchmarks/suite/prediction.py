"""The predictor held to account: predicted and measured time side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from benchmarks.suite.counting import Candidate
from benchmarks.suite.result import SuiteRun
from kernelwright.evaluator.prediction import predict_program
from kernelwright.metal.perf import ChipProfile, find_profile

_FEWEST = 4
"""Candidates below which a task's ranking says little."""
_WANTED = 0.8
_INTRODUCTION = """\
# Predictions beside measurements

Where nothing can be timed, the evaluator ranks by a predicted time. The simulator counts what a
kernel does, and `kernelwright/metal/perf` turns the counts into a time on a chip: what memory,
caches, arithmetic, special functions, threadgroup memory, the lifetimes of threads and the start of
threadgroups would each take alone, combined by a norm because they overlap imperfectly, plus the
launch.

Two of its constants, a thread's bytes in flight and the norm's exponent, are fitted to the
measurements below: this page says how well the model describes one chip, not how well it foretells
another. Registers are not counted: kernels that keep many values, and so have fewer threads
resident, are predicted too fast.
"""


@dataclass(frozen=True)
class Judged:
    """A candidate beside its prediction."""

    candidate: Candidate
    predicted_us: float
    bound: str

    @property
    def error(self) -> float:
        """Predicted over measured time."""
        return self.predicted_us / self.candidate.measured_us


def profile_of(run: SuiteRun) -> ChipProfile:
    """Return the chip's profile with the copy bandwidth and launch that the run measured."""
    profile = find_profile(run.device.chip)
    peak = profile.bandwidth_gb_s * 1e9
    return profile.model_copy(
        update={
            "launch_us": run.launch_us,
            "bandwidth_efficiency": min(run.copy_bytes_per_s / peak, 1.0),
        }
    )


def judge(candidates: Sequence[Candidate], profile: ChipProfile) -> list[Judged]:
    """Predict every candidate."""
    found = []
    for candidate in candidates:
        predicted = predict_program(candidate.counters, profile)
        found.append(Judged(candidate, predicted.microseconds, predicted.bound))
    return found


def markdown(run: SuiteRun, judged: Sequence[Judged]) -> str:
    """Render how well predictions rank and size what was measured."""
    tasks: dict[tuple[str, str, int], list[Judged]] = {}
    for one in judged:
        tasks.setdefault(one.candidate.key[:3], []).append(one)
    ranked = {k: rank_correlation(v) for k, v in tasks.items() if len(v) >= _FEWEST}
    strong = sum(rho >= _WANTED for rho in ranked.values())
    lines = [
        _INTRODUCTION,
        (
            f"{run.device.chip}; {len(judged)} candidates of {len(tasks)} tasks, each timed alone "
            "on the GPU with rotating inputs, and counted on the simulator."
        ),
        "",
        f"- Rank correlation (Spearman) over all candidates: **{rank_correlation(judged):.2f}**.",
        (
            f"- Within a task: median **{np.median(list(ranked.values())):.2f}**; {strong} of "
            f"{len(ranked)} tasks reach {_WANTED}."
        ),
        f"- Of the faster half by prediction, the best candidate is in {_kept(tasks.values())}.",
        "",
        "| limited by | candidates | predicted / measured, median | 10 % | 90 % |",
        "|---|---|---|---|---|",
        *_by_bound(judged),
        "",
        "| task | dtype | candidates | rank correlation | fastest | slowest | predicted/measured |",
        "|---|---|---|---|---|---|---|",
        *(_task_row(k, tasks[k], rho) for k, rho in sorted(ranked.items(), key=lambda kv: kv[1])),
    ]
    return "\n".join(lines) + "\n"


def rank_correlation(judged: Sequence[Judged]) -> float:
    """Return Spearman's coefficient; 0 where all predictions are the same."""
    measured = [j.candidate.measured_us for j in judged]
    predicted = [j.predicted_us for j in judged]
    if len(set(predicted)) < 2 or len(set(measured)) < 2:
        return 0.0
    return float(spearmanr(measured, predicted).statistic)


def _kept(tasks: Iterable[Sequence[Judged]]) -> str:
    kept = whole = 0
    for task in tasks:
        if len(task) < _FEWEST:
            continue
        best = min(task, key=lambda j: j.candidate.measured_us)
        limit = float(np.median([j.predicted_us for j in task]))
        kept, whole = kept + (best.predicted_us <= limit), whole + 1
    return f"{kept} of {whole} tasks"


def _by_bound(judged: Sequence[Judged]) -> list[str]:
    groups: Mapping[str, list[float]] = {j.bound: [] for j in judged}
    for j in judged:
        groups[j.bound].append(j.error)
    rows = []
    for bound, errors in sorted(groups.items(), key=lambda item: -len(item[1])):
        low, middle, high = np.percentile(errors, [10, 50, 90])
        rows.append(f"| {bound} | {len(errors)} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return rows


def _task_row(key: tuple[str, str, int], task: Sequence[Judged], rho: float) -> str:
    times = [j.candidate.measured_us for j in task]
    middle = float(np.median([j.error for j in task]))
    return (
        f"| {key[0]}: {task[0].candidate.operation} | {key[1]} | {len(task)} | {rho:.2f} "
        f"| {min(times):.0f} µs | {max(times):.0f} µs | {middle:.2f} |"
    )
