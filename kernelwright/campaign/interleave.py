"""Which task is worth the next evaluation: the one that could still save most in that time."""

from collections.abc import Callable, Mapping, Sequence

from kernelwright.campaign.pursuit import Pursuit
from kernelwright.campaign.ranking import unique_bytes_moved
from kernelwright.campaign.savings import Traffic, traffic_of

Order = Callable[[Sequence[Pursuit]], Sequence[Pursuit]]
"""Puts the task that shall be served first in front."""
_LEAST_SHARE = 0.05
"""Of a task's traffic: a leader at the plan's bytes may still gain in other ways."""


def in_given_order(pursuits: Sequence[Pursuit]) -> Sequence[Pursuit]:
    """Keep the order in which tasks were found."""
    return pursuits


class BySavings:
    """Orders tasks by the bytes they could still save for each second spent on them."""

    def __init__(self, priorities: Mapping[str, float]) -> None:
        """Take weights by function name; a task is worth its function's."""
        self._priorities = priorities
        self._traffic: dict[str, Traffic] = {}

    def __call__(self, pursuits: Sequence[Pursuit]) -> Sequence[Pursuit]:
        """Return the tasks, most worth while first."""
        return sorted(pursuits, key=self._worth, reverse=True)

    def _worth(self, pursuit: Pursuit) -> float:
        seconds = sum(attempt.evaluation.duration_s for attempt in pursuit.history)
        priority = self._priorities.get(pursuit.task.name.partition("/")[0], 1.0)
        return priority * self._left(pursuit) / (1.0 + seconds)

    def _left(self, pursuit: Pursuit) -> float:
        task = pursuit.task
        traffic = self._traffic.get(task.fingerprint)
        if traffic is None:
            traffic = self._traffic[task.fingerprint] = traffic_of(task.graph)
        moved = traffic.best_of_mlx
        for attempt in pursuit.history:
            if attempt.evaluation.is_correct and attempt.evaluation.counters:
                moved = min(moved, unique_bytes_moved(attempt.evaluation))
        return max(moved - traffic.planned, _LEAST_SHARE * traffic.best_of_mlx)
