"""The predictor's fitted constants: from measured times, and without some tasks at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.suite.counting import TaskKey
from kernelwright.evaluator.speed.prediction import predict_program
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import ChipProfile

_OF_CHIP = ("memory_latency_us", "threadgroup_start_us", "threadgroups_per_us")
_OF_CORE = (
    "instructions",
    "cache_bytes",
    "instruction_cycles",
    "barrier_cycles",
    "arrival_cycles",
)
_OF_COSTS = ("float_operation", "byte", "read", "simd_operation")
FITTED = (*_OF_CHIP, *_OF_CORE, *_OF_COSTS)
"""All that is fitted; every task shares each of them."""
_ORDER_NOISE, _LEVEL_NOISE = 0.06, 0.2
"""Relative error of the model within a task, and over all: more counts less than its square."""
_BELIEF = 0.7
"""How far a constant may lie from where it began, as the standard deviation of its logarithm."""
_FOLDS = 5
_MOST_STEPS = 12
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One timed candidate with what it was counted to do."""

    schedule: str
    measured_us: float
    counters: tuple[Counters, ...]


Tasks = Mapping[TaskKey, Sequence[Candidate]]


def fit(tasks: Tasks, profile: ChipProfile) -> ChipProfile:
    """Return the profile with the constants that describe what was measured best.

    Candidates of a task are compared with each other first, for that is what a search asks.
    """
    start = np.log(_values(profile))
    measured = {key: np.log([c.measured_us for c in task]) for key, task in tasks.items()}

    def residuals(logarithms: Values) -> Values:
        trial = _with_values(profile, np.exp(logarithms))
        found = [(logarithms - start) / _BELIEF]
        for key, task in tasks.items():
            errors = np.log(_predicted(task, trial)) - measured[key]
            found += [(errors - np.median(errors)) / _ORDER_NOISE, errors / _LEVEL_NOISE]
        return np.concatenate(found)

    best = least_squares(residuals, start, loss="soft_l1", max_nfev=_MOST_STEPS, diff_step=1e-3)
    return _with_values(profile, np.exp(best.x))


def predict_each_unseen(tasks: Tasks, profile: ChipProfile) -> dict[TaskKey, list[float]]:
    """Predict each task's candidates, in microseconds, by constants fitted to other tasks.

    A fifth of the tasks is left out at a time.
    """
    found = {}
    keys = list(tasks)
    for fold in range(_FOLDS):
        left_out = keys[fold::_FOLDS]
        trial = fit({k: task for k, task in tasks.items() if k not in left_out}, profile)
        found.update({key: _predicted(tasks[key], trial) for key in left_out})
    return found


def _predicted(task: Sequence[Candidate], profile: ChipProfile) -> list[float]:
    return [predict_program(c.counters, profile).microseconds for c in task]


def _values(profile: ChipProfile) -> Values:
    core = profile.core
    parts = ((profile, _OF_CHIP), (core, _OF_CORE), (core.costs, _OF_COSTS))
    return np.array([getattr(part, name) for part, names in parts for name in names], dtype=float)


def _with_values(profile: ChipProfile, values: Values) -> ChipProfile:
    found = dict(zip(FITTED, map(float, values), strict=True))
    costs = profile.core.costs.model_copy(update={name: found[name] for name in _OF_COSTS})
    of_core = {name: found[name] for name in _OF_CORE}
    core = profile.core.model_copy(update={**of_core, "costs": costs})
    return profile.model_copy(update={**{name: found[name] for name in _OF_CHIP}, "core": core})
