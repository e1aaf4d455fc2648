"""Candidates that were there when something died: tried last and alone, given up in the end."""

from collections import Counter
from collections.abc import Mapping

from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program

_MOST_LOSSES = 2
"""Workers that a candidate may lose in a run before its verdict stands."""


class CrashQuarantine:
    """Who is quarantined, and what for."""

    def __init__(self, in_flight: Mapping[str, int], most_deaths: int) -> None:
        """Take how many runs died while each candidate was in flight."""
        self._deaths = dict(in_flight)
        self._most_deaths = most_deaths
        self._losses = Counter[str]()
        self._held = set(in_flight)

    def holds(self, candidate_id: str) -> bool:
        """Say whether a candidate is to be tried last, with nothing beside it."""
        return candidate_id in self._held

    def deaths(self, candidate_id: str) -> int:
        """Return how many runs a candidate took down for good; 0 while it may be tried again."""
        deaths = self._deaths.get(candidate_id, 0)
        return deaths if deaths >= self._most_deaths else 0

    def has_lost(self, candidate_id: str) -> bool:
        """Say whether a candidate has lost a worker in this run."""
        return self._losses[candidate_id] > 0

    def is_to_be_tried_again(self, candidate_id: str, evaluation: Evaluation) -> bool:
        """Take a verdict; True when it only says that a worker was lost, for the first time.

        The worker may have died of something else: the next one is the candidate's alone.
        """
        if evaluation.status in (Status.CRASHED, Status.TIMEOUT):
            self._losses[candidate_id] += 1
            if self._losses[candidate_id] < _MOST_LOSSES:
                self._held.add(candidate_id)
                return True
        self._held.discard(candidate_id)
        return False


def given_up(task: Task, program: Program, device: DeviceInfo, deaths: int) -> Evaluation:
    """Return the verdict on a candidate that is not tried any more."""
    return Evaluation(
        task=task.fingerprint,
        program=program.id,
        device=device,
        status=Status.CRASHED,
        summary=f"given up: it was in flight when the campaign died, {deaths} times",
    )


def failed_evaluation(
    task: Task, program: Program, device: DeviceInfo, error: Exception
) -> Evaluation:
    """Return the verdict on a candidate at which the evaluator itself failed.

    It is nobody's last word: another search tries the candidate again.
    """
    return Evaluation(
        task=task.fingerprint,
        program=program.id,
        device=device,
        status=Status.CRASHED,
        summary=f"the evaluator failed at it: {type(error).__name__}: {error}",
    )
