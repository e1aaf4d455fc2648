"""Judges a fleet's jobs on this machine: all that a verdict depends on comes with the job."""

from collections.abc import Callable, Sequence
from typing import Protocol

from kernelwright.campaign.execution.device_lock import turn_on
from kernelwright.campaign.fleet.job import AnyCase, FleetJob
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.metal.device.base import DeviceInfo, DeviceName


class JobJudge(Protocol):
    """Judges one job at a time."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""

    def judge(self, job: FleetJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate and were not known.

        Raises:
            DeviceError: the machine failed, not the candidate.
        """

    def start_again(self) -> None:
        """Give the next job a process that no candidate has been near."""

    def close(self) -> None:
        """End its workers, from any thread."""


MakeJobJudge = Callable[[], JobJudge]


def job_judges_on(device: DeviceName) -> "Callable[[], EvaluatorJobJudge]":
    """Return what makes judges for a worker; they build each task's cases once, for all of them."""
    suites = SuiteCache()
    return lambda: EvaluatorJobJudge(device, suites)


class EvaluatorJobJudge:
    """Keeps one evaluator warm; a job of another campaign brings another secret."""

    def __init__(self, device: DeviceName, suites: SuiteCache) -> None:
        self._device = device
        self._is_over = False
        self._evaluator = Evaluator(
            device, suites=suites, turn=lambda: turn_on(self._device, lambda: self._is_over)
        )
        self._info: DeviceInfo | None = None

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; opens it."""
        self._info = self._info or self._evaluator.info
        return self._info

    def judge(self, job: FleetJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate."""
        evaluator = self._evaluator
        if evaluator.config.commitment != job.config.commitment:
            evaluator.start_over(job.config)
        evaluator.config = job.config
        known = evaluator.regressions
        known.extend(case for case in job.cases if case not in known)
        before = len(known)
        evaluation = evaluator.evaluate(job.task.task(), job.program, tried=job.tried)
        return evaluation, known[before:]

    def start_again(self) -> None:
        """End the worker; the next job starts another."""
        self._evaluator.close()

    def close(self) -> None:
        """End the worker for good."""
        self._is_over = True
        self._evaluator.close()
