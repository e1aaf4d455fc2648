"""Whoever evaluates for a campaign, and where its verdicts hold."""

import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Protocol

from kernelwright.campaign.execution.device_lock import turn_on
from kernelwright.campaign.history.evaluation_history import Memory, OwnMemory, StoredMemory
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
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
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
) -> "Callable[[], EvaluatorJudge]":
    """Return what makes judges on a device; they share one secret, so that they agree.

    With a store they know what was tried, and what caught it, in campaigns before this one. A
    threadgroup may take `threadgroup_bytes`: see `registry.open_device`.
    """
    config = EvaluatorConfig(threadgroup_bytes=threadgroup_bytes)
    memory = OwnMemory() if store is None else StoredMemory(store)
    suites = SuiteCache()
    return lambda: EvaluatorJudge(device, config, memory, suites)


class EvaluatorJudge:
    """Screens and confirms with one evaluator, so that both share its suites of cases."""

    def __init__(
        self,
        device: DeviceName,
        config: EvaluatorConfig,
        memory: Memory | None = None,
        suites: SuiteCache | None = None,
    ) -> None:
        self._is_over = False
        self._evaluator = Evaluator(
            device, config, suites=suites, turn=lambda: turn_on(device, lambda: self._is_over)
        )
        self._memory = memory or OwnMemory()
        self._recalled: set[str] = set()
        self._screening = config
        self._confirming = config.model_copy(update={"through": Stage.CONFIRMATION})

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._evaluator.info

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the workers that are there."""
        return self._evaluator.processes

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        return self._judge(self._screening, task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        return self._judge(self._confirming, task, program)

    def _judge(self, config: EvaluatorConfig, task: Task, program: Program) -> Evaluation:
        known = self._evaluator.regressions
        if task.fingerprint not in self._recalled:
            self._recalled.add(task.fingerprint)
            known.extend(case for case in self._memory.regressions(task) if case not in known)
        before = len(known)
        self._evaluator.config = config
        evaluation = self._evaluator.evaluate(
            task, program, tried=self._memory.tried(task, program)
        )
        for case in known[before:]:
            self._memory.keep(case)
        return evaluation

    def close(self) -> None:
        """End the worker."""
        self._is_over = True
        self._evaluator.close()


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
