"""Judges whose workers die or hang, and whose driver falls silent, by a plan."""

import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from kernelwright.campaign.execution.judge import Judge, MakeJudge
from kernelwright.errors import DeviceError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.testing.fault.sabotage import Sabotage, signal_later

_AFTER_S = 0.02
"""Into an evaluation: its worker is at work by then."""


class Employer(Judge, Protocol):
    """A judge that says which processes work for it."""

    @property
    def processes(self) -> Sequence[int]:
        """Return the ids of its workers, each the leader of its group."""


class SabotagedJudge:
    """Evaluates, unless something is planned to go wrong."""

    def __init__(self, judge: Employer, sabotage: Sabotage) -> None:
        self._judge = judge
        self._sabotage = sabotage

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._judge.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        self._go_wrong()
        return self._judge.evaluate(task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        self._go_wrong()
        return self._judge.confirm(task, program)

    def close(self) -> None:
        """End the worker."""
        self._judge.close()

    def _go_wrong(self) -> None:
        kinds = {fault.kind for fault in self._sabotage.at("evaluation")}
        if "driver_silent" in kinds:
            raise DeviceError("the driver does not answer (as planned).")
        if "worker_dies" in kinds:
            signal_later(self._workers, signal.SIGKILL, _AFTER_S)
        if "worker_hangs" in kinds:
            signal_later(self._workers, signal.SIGSTOP, _AFTER_S)

    def _workers(self) -> Sequence[int]:
        return self._judge.processes


def sabotaged(make: Callable[[], Employer], sabotage: Sabotage) -> MakeJudge:
    """Return what makes judges that meet the planned faults."""
    return lambda: SabotagedJudge(make(), sabotage)
