"""The predictor's fitted constants: from measured times, and without one task at a time."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.suite.counting import Candidate
from kernelwright.evaluator.prediction import predict_program
from kernelwright.metal.perf import ChipProfile

_OF_CHIP = ("memory_latency_us", "threadgroup_start_us", "threadgroups_per_us")
_OF_CORE = (
    "instructions",
    "cache_bytes",
    "instruction_cycles",
    "barrier_cycles",
    "arrival_cycles",
)
FITTED = (*_OF_CHIP, *_OF_CORE)
"""All that is fitted; every task shares each of them."""
_NOISE = 0.15
"""Relative error of the model, beyond which a candidate counts less than its square."""
_BELIEF = 0.7
"""How far a constant may lie from where it began, as the standard deviation of its logarithm."""
Values = NDArray[np.float64]


def fit(candidates: Sequence[Candidate], profile: ChipProfile) -> ChipProfile:
    """Return the profile with the constants that describe what was measured best."""
    start = np.log(_values(profile))
    measured = np.log([c.measured_us for c in candidates])

    def residuals(logarithms: Values) -> Values:
        trial = _with_values(profile, np.exp(logarithms))
        predicted = [predict_program(c.counters, trial).microseconds for c in candidates]
        errors = (np.log(predicted) - measured) / _NOISE
        return np.concatenate([errors, (logarithms - start) / _BELIEF])

    found = least_squares(residuals, start, loss="soft_l1", max_nfev=12)
    return _with_values(profile, np.exp(found.x))


def predict_each_unseen(
    tasks: Mapping[tuple[str, str, int], Sequence[Candidate]], profile: ChipProfile
) -> dict[tuple[str, str, int], list[float]]:
    """Predict each task's candidates, in microseconds, by constants fitted to the other tasks."""
    found = {}
    for key, candidates in tasks.items():
        others = [c for k, task in tasks.items() if k != key for c in task]
        trial = fit(others, profile)
        found[key] = [predict_program(c.counters, trial).microseconds for c in candidates]
    return found


def _values(profile: ChipProfile) -> Values:
    of_chip = [getattr(profile, name) for name in _OF_CHIP]
    return np.array([*of_chip, *(getattr(profile.core, name) for name in _OF_CORE)], dtype=float)


def _with_values(profile: ChipProfile, values: Values) -> ChipProfile:
    numbers = [float(v) for v in values]
    core = profile.core.model_copy(update=dict(zip(_OF_CORE, numbers[3:], strict=True)))
    chip = dict(zip(_OF_CHIP, numbers[:3], strict=True))
    return profile.model_copy(update={**chip, "core": core})
