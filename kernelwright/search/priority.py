"""Which task is worth the next evaluation: where most seconds can still be saved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.evaluator.speed.predicted_time import peak_time
from kernelwright.evaluator.task import Task
from kernelwright.ir import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import ChipProfile, find_profile
from kernelwright.plan import compiled_traffic, eager_traffic, fast_traffic, planned_traffic
from kernelwright.search.task_search import TaskSearch

Order = Callable[[Sequence[TaskSearch], DeviceInfo], Sequence[TaskSearch]]
"""Puts the task that shall be served first in front."""
_PRIOR_S = 1.0
"""What an evaluation is believed to take before one is known."""
_LEAST_SHARE = 0.05
"""Of a task's time: one at its floor may still gain, for the floor is an estimate."""
_USUAL_CHIP = "m4-pro"


def in_given_order(tasks: Sequence[TaskSearch], device: DeviceInfo) -> Sequence[TaskSearch]:
    """Keep the order in which tasks were found."""
    return tasks


@dataclass(frozen=True)
class Estimate:
    """What is known of a task before a candidate is evaluated, in microseconds of one call."""

    mlx_us: float
    """The fastest of MLX's own ways, from the bytes that it moves."""
    floor_us: float
    """One kernel that reads its inputs and writes its outputs once."""


class SecondsToSave:
    """Orders tasks by what an evaluation of theirs is expected to save, for the time it takes.

    That is the time above the floor, times the calls, times the chance that a candidate improves
    on the best, over the seconds of an evaluation. Time, chance and seconds are learned from the
    task's own verdicts; before the first, time comes from bytes.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        """Take weights by function name; a task is worth its function's."""
        self._weights = weights or {}
        self._estimates: dict[tuple[str, str], Estimate] = {}
        self._rates: dict[tuple[str, str], tuple[int, int, float]] = {}
        """By task and chip: which search, how long its history was, and its rate then."""

    def __call__(self, tasks: Sequence[TaskSearch], device: DeviceInfo) -> Sequence[TaskSearch]:
        """Return the tasks, most worth while first; equal ones as they were found."""
        return sorted(tasks, key=lambda search: self.rate(search, device), reverse=True)

    def rate(self, search: TaskSearch, device: DeviceInfo) -> float:
        """Return the expected saving for a second of evaluation."""
        # A task's rate changes with its history alone; thousands of tasks are asked for each time.
        key, judged = (search.task.fingerprint, device.chip), len(search.history)
        known = self._rates.get(key)
        if known is None or known[:2] != (id(search), judged):
            known = self._rates[key] = (id(search), judged, self._rate(search, device))
        return known[2]

    def _rate(self, search: TaskSearch, device: DeviceInfo) -> float:
        weight = self._weights.get(search.task.name.partition("/")[0], 1.0)
        estimate = self._estimate(search.task, device)
        seconds = [attempt.evaluation.duration_s for attempt in search.history]
        mean_s = (_PRIOR_S + sum(seconds)) / (1 + len(seconds))
        saving = weight * search.calls * left_us(search, estimate) * chance(search)
        return saving / max(mean_s, 1e-3)

    def _estimate(self, task: Task, device: DeviceInfo) -> Estimate:
        key = task.fingerprint, device.chip
        if key not in self._estimates:
            self._estimates[key] = estimate_of(task, profile_for(device))
        return self._estimates[key]


def left_us(search: TaskSearch, estimate: Estimate) -> float:
    """Return the time of a call that may still be saved."""
    best = search.best_known
    is_time = best is not None and best.kind != "traffic"
    now_us = best.value if best is not None and is_time else estimate.mlx_us
    return max(now_us - estimate.floor_us, _LEAST_SHARE * now_us)


def chance(search: TaskSearch) -> float:
    """Return the chance that the next candidate improves on the best.

    Of as many candidates as are right, each is the best with the same chance; each one that did
    improve makes another more likely. Wrong ones count half: they say less of the speed.
    """
    right = sum(attempt.evaluation.is_correct for attempt in search.history)
    wrong = len(search.history) - right
    return (1 + search.gains) / (1 + search.gains + search.since_best + 0.5 * wrong)


def estimate_of(task: Task, profile: ChipProfile) -> Estimate:
    """Estimate a task's times from the bytes and the launches of each way to compute it."""
    graph = task.graph
    whole = [Region(graph, tuple(range(len(graph.nodes))))]
    planned = planned_traffic(graph, whole)
    ways = (eager_traffic(graph), compiled_traffic(graph), fast_traffic(graph))

    def time_us(nbytes: int, launches: int) -> float:
        return peak_time(nbytes, launches, 0, profile).microseconds

    return Estimate(
        mlx_us=min(time_us(way.nbytes, way.launches) for way in ways),
        floor_us=time_us(planned.nbytes, planned.launches),
    )


def profile_for(device: DeviceInfo) -> ChipProfile:
    """Return a device's profile; that of the chip that is predicted for where it has none."""
    try:
        return find_profile(device.chip)
    except InputError:
        return find_profile(_USUAL_CHIP)
