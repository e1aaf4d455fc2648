"""Runs over many cases: the host judges one result while the device is at the next case."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from kernelwright.evaluator.oracle.parallel import begin
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.metal.device.executable import RunResult

JudgeRun = Callable[[int, Reference, RunResult], None]
"""Takes a case's place, the case, and what a program gave there; raises `Failure`."""


def run_cases(trial: Trial, references: Sequence[Reference], judge: JudgeRun) -> None:
    """Run a program once on each case, in order, and judge what it gives, one at a time.

    Raises:
        Failure: that of the first case in order, though the one after it may have run by then.
    """
    last = _Judgement()
    for seed, reference in enumerate(references):
        try:
            result = trial.run(reference, seed=seed)
        except Failure as failure:
            last.end(failure)
            raise
        last.end()
        last = _Judgement(partial(judge, seed, reference, result))
    last.end()


class _Judgement:
    """What is found of one case, on another thread where one is free."""

    def __init__(self, judge: Callable[[], None] = lambda: None) -> None:
        self._judge = judge
        self._begun: Future[None] = begin(judge)

    def end(self, later: Failure | None = None) -> None:
        """Wait for it; threads that draw for others may not have come to it.

        Raises:
            Failure: the case's, with the loss of the worker in the case after it.
        """
        try:
            self._judge() if self._begun.cancel() else self._begun.result()
        except Failure as failure:
            if later is None or not later.lost_worker:
                raise
            raise replace(failure, lost_worker=True) from later
