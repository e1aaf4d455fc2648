"""Where a campaign's models have programs judged while they write, under its caps."""

import threading
from collections.abc import Callable, Sequence

from kernelwright.agents.session.workbench import Sibling
from kernelwright.campaign.execution.executor import Executor
from kernelwright.errors import BudgetError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.ir.naming.describe import operation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family import classify
from kernelwright.metal.kernel import Program
from kernelwright.store import CandidateDetail, Champion, KernelStore

_MOST_SIBLINGS = 3


class ExecutorWorkbench:
    """Judges on a campaign's executor, one program of models at a time, each program once.

    Every evaluation counts against the campaign's cap on evaluations, as a candidate's does.
    """

    def __init__(self, executor: Executor, store: KernelStore, cap: Callable[[], str]) -> None:
        """Take where programs are judged, and what says that no more may be."""
        self._executor = executor
        self._store = store
        self._cap = cap
        self._turn = threading.Lock()

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._executor.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of the open stages.

        Raises:
            BudgetError: the campaign's evaluations are used up.
            DeviceError: the device failed through every pause.
        """
        with self._turn:
            if reached := self._cap():
                raise BudgetError(f"{reached}.")
            return self._executor.try_out(task, program)

    def siblings(self, task: Task) -> Sequence[Sibling]:
        """Return champions of like tasks: the same at another size first, then the family's."""
        name, family = operation(task.graph), classify(task.graph).pattern
        same: list[Sibling] = []
        alike: list[Sibling] = []
        for champion in self._store.best(device=self._executor.info.name, limit=200):
            if champion.task.id == task.fingerprint or len(same) >= _MOST_SIBLINGS:
                continue
            detail = self._store.show(champion.candidate_id)
            if operation(detail.graph) == name:
                same.append(_sibling(champion, detail))
            elif len(alike) < _MOST_SIBLINGS and classify(detail.graph).pattern is family:
                alike.append(_sibling(champion, detail))
        return (*same, *alike)[:_MOST_SIBLINGS]


def _sibling(champion: Champion, detail: CandidateDetail) -> Sibling:
    types = ", ".join(str(t) for t in detail.graph.input_types)
    return Sibling(
        name=champion.candidate_id[:8],
        task=f"{champion.task.name} {types}",
        idea=champion.idea,
        program=detail.program,
    )
