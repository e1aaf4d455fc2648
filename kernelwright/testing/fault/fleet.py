"""Faults on a fleet: of the campaign when it hands a job over, of a worker when it takes one."""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from kernelwright.campaign.execution.executor import Executor, ExecutorFactory, Job, JobVerdict
from kernelwright.campaign.execution.retry_policy import DeviceCare, Rest
from kernelwright.campaign.judging.job import AnyCase, JudgeJob
from kernelwright.campaign.judging.job_judge import JobJudge
from kernelwright.errors import DeviceError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.store import Environment
from kernelwright.testing.fault.sabotage import Sabotage


class SabotagedExecutors(ExecutorFactory):
    """Opens executors whose every job is a moment of the plan."""

    def __init__(self, executors: ExecutorFactory, sabotage: Sabotage) -> None:
        self._executors = executors
        self._sabotage = sabotage

    def open(self, jobs: int, rest: Rest, care: DeviceCare) -> Executor:
        """Open the device."""
        return _SabotagedExecutor(self._executors.open(jobs, rest, care), self._sabotage)


class _SabotagedExecutor:
    """An executor that counts the jobs handed to another one; see `Executor`."""

    def __init__(self, executor: Executor, sabotage: Sabotage) -> None:
        self._executor = executor
        self._sabotage = sabotage

    @property
    def info(self) -> DeviceInfo:
        return self._executor.info

    @property
    def environment(self) -> Environment:
        return self._executor.environment

    @property
    def width(self) -> int:
        return self._executor.width

    @property
    def jobs(self) -> int:
        return self._executor.jobs

    @property
    def evaluations(self) -> int:
        return self._executor.evaluations

    @property
    def tool_evaluations(self) -> int:
        return self._executor.tool_evaluations

    def submit(self, job: Job) -> Future[JobVerdict]:
        self._sabotage.at("evaluation")
        return self._executor.submit(job)

    def try_out(self, task: Task, program: Program) -> Evaluation:
        self._sabotage.at("evaluation")
        return self._executor.try_out(task, program)

    def close(self) -> None:
        self._executor.close()

    def __enter__(self) -> Self:
        self._executor.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._executor.__exit__(kind, error, trace)


class SabotagedJobJudge:
    """Judges a worker's jobs, unless something is planned to go wrong with the worker."""

    def __init__(self, judge: JobJudge, sabotage: Sabotage) -> None:
        self._judge = judge
        self._sabotage = sabotage

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._judge.info

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict; the worker may die of it, hang, or meet a silent driver."""
        kinds = {fault.kind for fault in self._sabotage.at("evaluation")}
        if "driver_silent" in kinds:
            raise DeviceError("the driver does not answer (as planned).")
        if "worker_hangs" in kinds:
            os.kill(os.getpid(), signal.SIGSTOP)
        found = self._judge.judge(job)
        if "worker_dies" in kinds:
            # With a verdict that nobody will hear of.
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def start_again(self) -> None:
        """Give the next job a process that no candidate has been near."""
        self._judge.start_again()

    def close(self) -> None:
        """End its workers."""
        self._judge.close()
