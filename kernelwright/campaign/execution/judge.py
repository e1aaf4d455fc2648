"""Whoever evaluates for a campaign, and where its verdicts hold."""

import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Protocol

from kernelwright.campaign.history.evaluation_history import Memory, OwnMemory, StoredMemory
from kernelwright.campaign.judging.job import JudgeJob
from kernelwright.campaign.judging.job_judge import write_task
from kernelwright.campaign.judging.judges import OwnJobJudge, job_judges_on
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo, DeviceName
from kernelwright.metal.kernel import Program
from kernelwright.store import Environment, KernelStore


class Judge(Protocol):
    """Evaluates one candidate at a time; `evaluator.Evaluator` is one."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program.

        Raises:
            DeviceError: the machine failed, not the candidate.
        """

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage, the hidden gate and a fresh process included."""

    def close(self) -> None:
        """End its workers, from any thread, even in the middle of an evaluation."""


MakeJudge = Callable[[], Judge]


def judges_on(
    device: DeviceName,
    store: KernelStore | None = None,
    *,
    jobs: int = 1,
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    stands_for: str = "",
) -> "Callable[[], EvaluatorJudge]":
    """Return what makes judges on a device; they share one secret, so that they agree.

    With a store they know what was tried, and what caught it, in campaigns before this one. Where
    `jobs` judge at once, each has a process of its own. A threadgroup may take
    `threadgroup_bytes`, and the simulator `stands_for` a chip: see `registry.open_device`.
    """
    config = EvaluatorConfig(threadgroup_bytes=threadgroup_bytes, stands_for=stands_for)
    memory = OwnMemory() if store is None else StoredMemory(store)
    make = job_judges_on(device, jobs=jobs, config=config)
    return lambda: EvaluatorJudge(make(), config, memory)


def judge_on(
    device: DeviceName, config: EvaluatorConfig, memory: Memory | None = None
) -> "EvaluatorJudge":
    """Return one judge, in this process."""
    return EvaluatorJudge(job_judges_on(device, config=config)(), config, memory)


class EvaluatorJudge:
    """Screens and confirms with one evaluator, so that both share its suites of cases."""

    def __init__(
        self, judge: OwnJobJudge, config: EvaluatorConfig, memory: Memory | None = None
    ) -> None:
        self._judge = judge
        self._memory = memory or OwnMemory()
        self._screening = config
        self._confirming = config.model_copy(update={"through": Stage.CONFIRMATION})

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._judge.info

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the processes that work for it."""
        return self._judge.processes

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        return self._verdict(self._screening, task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        return self._verdict(self._confirming, task, program)

    def _verdict(self, config: EvaluatorConfig, task: Task, program: Program) -> Evaluation:
        job = JudgeJob(
            task=write_task(task),
            program=program,
            config=config,
            tried=self._memory.tried(task, program),
            cases=tuple(self._memory.regressions(task)),
        )
        evaluation, cases = self._judge.judge(job)
        for case in cases:
            self._memory.keep(case)
        return evaluation

    def close(self) -> None:
        """End the worker."""
        self._judge.close()


def environment_of(device: DeviceInfo) -> Environment:
    """Describe where verdicts of this process on `device` hold."""
    return Environment(device=device, mlx=version("mlx"), system=_system())


@cache
def _system() -> str:
    """Name the system with its version, so that an update is another environment."""
    if release := platform.mac_ver()[0]:
        return f"macOS {release} {platform.machine()}"
    try:
        os_release = platform.freedesktop_os_release()
    except OSError:
        return f"{platform.system()} {platform.release()} {platform.machine()}"
    named = f"{os_release['NAME']} {os_release.get('VERSION_ID', '')}".strip()
    return f"{named} {platform.machine()}"
