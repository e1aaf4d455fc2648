"""Judges jobs on this machine: all that a verdict depends on comes with the job."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Protocol

from kernelwright.campaign.judging.device_lock import turn_on
from kernelwright.campaign.judging.job import AnyCase, JudgeJob, TaskText
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.timeline import span

_KEPT_TASKS = 32


class JobJudge(Protocol):
    """Judges one job at a time."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate and were not known.

        Raises:
            DeviceError: the machine failed, not the candidate.
        """

    def start_again(self) -> None:
        """Give the next job a process that no candidate has been near."""

    def close(self) -> None:
        """End its workers, from any thread."""


MakeJobJudge = Callable[[], JobJudge]


class EvaluatorJobJudge:
    """Keeps one evaluator warm; a job of another campaign brings another secret."""

    def __init__(
        self,
        device: DeviceName,
        suites: SuiteCache | None = None,
        config: EvaluatorConfig | None = None,
    ) -> None:
        """Judge on `device`, which opens under the limits of `config`."""
        self._is_over = False
        self._evaluator = Evaluator(
            device,
            config,
            suites=suites,
            turn=partial(turn_on, device, lambda: self._is_over),
        )
        self._info: DeviceInfo | None = None

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; opens it."""
        self._info = self._info or self._evaluator.info
        return self._info

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the workers that are there."""
        return self._evaluator.processes

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate."""
        evaluator = self._evaluator
        if evaluator.config.commitment != job.config.commitment:
            evaluator.start_over(job.config)
        evaluator.config = job.config
        known = evaluator.regressions
        known.extend(case for case in job.cases if case not in known)
        before = len(known)
        with span(f"{'confirm' if job.confirms else 'judge'} {job.program.id[:8]}"):
            evaluation = evaluator.evaluate(read_task(job.task), job.program, tried=job.tried)
        return evaluation, known[before:]

    def start_again(self) -> None:
        """End the worker; the next job starts another."""
        self._evaluator.renew()

    def close(self) -> None:
        """End the worker for good."""
        self._is_over = True
        self._evaluator.close()


@lru_cache(maxsize=_KEPT_TASKS)
def read_task(text: TaskText) -> Task:
    """Read a task; the candidates of one share it with all that was worked out from it."""
    return text.task()


@lru_cache(maxsize=_KEPT_TASKS)
def write_task(task: Task) -> TaskText:
    """Write a task, once for all of its candidates: a graph may hold captured weights."""
    return TaskText.of(task)
