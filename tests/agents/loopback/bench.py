"""The tests' judge as a workbench of tools."""

from collections.abc import Sequence

from kernelwright.agents.session.workbench import Sibling
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from tests.agents.loopback.loop import Shared


class Bench:
    """The tests' judge as a workbench; counts what it is asked for."""

    def __init__(self, judge: Shared) -> None:
        self._judge = judge
        self.count = 0

    @property
    def info(self) -> DeviceInfo:
        return self._judge.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        self.count += 1
        return self._judge.evaluate(task, program)

    def siblings(self, task: Task) -> Sequence[Sibling]:
        return ()
