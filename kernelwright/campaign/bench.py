"""The workbench: as many judges as may work at once, lent out one to a thread."""

import queue
from types import TracebackType
from typing import Self

from kernelwright.campaign.judge import Judge, MakeJudge
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program


class Bench:
    """Judges for one device; a device that measures time gets exactly one."""

    def __init__(self, make_judge: MakeJudge, jobs: int) -> None:
        first = make_judge()
        self.info: DeviceInfo = first.info
        self.jobs = 1 if self.info.measures_time else jobs
        self._make_judge = make_judge
        self._judges = [first]
        self._idle: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        self._idle.put(first)

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Evaluate on the next free judge; call from at most `jobs` threads."""
        judge = self._borrow()
        try:
            return judge.evaluate(task, program)
        finally:
            self._idle.put(judge)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Put a candidate through every stage on the next free judge."""
        judge = self._borrow()
        try:
            return judge.confirm(task, program)
        finally:
            self._idle.put(judge)

    def _borrow(self) -> Judge:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            # A search whose every candidate is known starts no second worker.
            judge = self._make_judge()
            self._judges.append(judge)
            return judge

    def close(self) -> None:
        """End every worker."""
        for judge in self._judges:
            judge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
