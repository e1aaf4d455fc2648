"""A pool of as many judges as may work at once, lent out one to a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from kernelwright.campaign.execution.judge import MakeJudge
from kernelwright.campaign.execution.retry_policy import (
    USUAL_CARE,
    DeviceCare,
    Health,
    Rest,
    RetryingJudge,
)
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program


def judges_at_once(device: DeviceInfo, jobs: int) -> int:
    """Return how many judges a device may have.

    On an NVIDIA GPU one is timed while the others' candidates compile and are sanitized. A GPU
    that shares memory and power with the cores would be slower for it, so it gets exactly one.
    """
    return jobs if device.name == "cuda" or not device.measures_time else 1


class EvaluatorPool:
    """Judges for one device."""

    def __init__(
        self,
        make_judge: MakeJudge,
        jobs: int,
        rest: Rest,
        care: DeviceCare = USUAL_CARE,
    ) -> None:
        """Open the device; `rest` waits where it fails later.

        Raises:
            DeviceError: it does not open.
        """
        first = make_judge()
        self.info: DeviceInfo = first.info
        self.jobs = judges_at_once(self.info, jobs)
        self._make_judge = make_judge
        self._health = Health(care, rest)
        self._judges = [RetryingJudge(make_judge, self.info, self._health, first)]
        self.evaluations = 0
        """All programs that were judged, confirmations aside."""
        self.tool_evaluations = 0
        """Programs that models had judged while they wrote, and that are no candidates yet."""
        self._tried: dict[tuple[str, str], Evaluation] = {}
        self._idle = list(self._judges)
        """Those who judged last come last."""
        self._lock = threading.Lock()

    def evaluate(self, task: Task, program: Program, *, alone: bool = False) -> Evaluation:
        """Evaluate on the next free judge, or with a worker of its own; from `jobs` threads.

        Raises:
            DeviceParkedError: the device failed again and again.
        """
        known = None if alone else self._tried.pop((task.fingerprint, program.id), None)
        if known is not None:
            # From here on it counts as the candidate's.
            self.tool_evaluations -= 1
            return known
        self.evaluations += 1
        with self._borrowed(task, program, alone=alone) as judge:
            return judge.evaluate(task, program)

    def try_out(self, task: Task, program: Program) -> Evaluation:
        """Evaluate what may become a candidate; when it does, its verdict is there already.

        Raises:
            DeviceParkedError: the device failed again and again.
        """
        self.evaluations += 1
        self.tool_evaluations += 1
        with self._borrowed(task, program, alone=False) as judge:
            evaluation = judge.evaluate(task, program)
        if not self.info.measures_time:
            # Counted times are the same every time; measured ones are taken again.
            self._tried[task.fingerprint, program.id] = evaluation
        return evaluation

    def confirm(self, task: Task, program: Program, *, alone: bool = False) -> Evaluation:
        """Put a candidate through every stage on the next free judge."""
        with self._borrowed(task, program, alone=alone) as judge:
            return judge.confirm(task, program)

    @contextmanager
    def _borrowed(self, task: Task, program: Program, *, alone: bool) -> Iterator[RetryingJudge]:
        judge = self._borrow(task.fingerprint, program.id)
        try:
            if alone:
                judge.start_again()
            yield judge
        finally:
            with self._lock:
                self._idle.append(judge)

    def _borrow(self, task_id: str, program_id: str) -> RetryingJudge:
        """Take one that has checked the program, else one that has the task's cases.

        Else it is the one that has been idle for longest.
        """
        with self._lock:
            if not self._idle:
                # A search whose every candidate is known starts no second worker.
                judge = RetryingJudge(self._make_judge, self.info, self._health)
                self._judges.append(judge)
                return judge
            informed = [judge for judge in self._idle if task_id in judge.tasks]
            best = (judge for judge in informed if program_id in judge.programs)
            chosen = next(best, informed[0] if informed else self._idle[0])
            self._idle.remove(chosen)
            return chosen

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
