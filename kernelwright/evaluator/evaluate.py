"""The whole verdict: stages in order, each a fact about one program, stopping at the first no."""

import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import AT_SHAPE, Evaluation, Stage, Status
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.oracle.accuracy import same_bytes
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.pipeline import FROM_TIMING, PIPELINE, run_pipeline
from kernelwright.evaluator.stages.protocol import Context
from kernelwright.evaluator.stages.trial import Failure, Turn, at_once
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.stages.worker_pool import WorkerPool
from kernelwright.evaluator.task import Task
from kernelwright.extra import need_extra
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array, Device
from kernelwright.metal.kernel import Program

# Workers and rare ops would miss its packages only in the middle of a verdict.
need_extra("search")
MOST_CHECKED = 2
"""Programs of a batch whose checks are remembered; the best of them is confirmed next."""


def evaluate(
    task: Task,
    program: Program,
    *,
    device: str | Device = "simulator",
    config: EvaluatorConfig | None = None,
) -> Evaluation:
    """Judge one program; to judge many, keep an `Evaluator`, which keeps its worker warm.

    Raises:
        DeviceError: the device or the machine failed, so that there is no verdict.
    """
    with Evaluator(device, config) as evaluator:
        return evaluator.evaluate(task, program)


class Evaluator:
    """Judges programs on one device, with a warm worker and one suite of cases per task."""

    def __init__(
        self,
        device: str | Device = "simulator",
        config: EvaluatorConfig | None = None,
        regressions: Sequence[CaughtCase] = (),
        suites: SuiteCache | None = None,
        turn: Turn = at_once,
    ) -> None:
        """Judge on `device`; evaluators of one config that share `suites` build each suite once.

        Those that share a device which measures take a `turn` for each launch, and one alone for
        each timed series; what needs the host, the comparison of answers among it, waits for none.
        """
        self.config = config or EvaluatorConfig()
        self.regressions = list(regressions)
        """Cases that have caught a program, those found here last; keep them for the next time."""
        self._workers = WorkerPool(device, self.config, turn)
        self._suites = suites or SuiteCache()
        self._draws_ahead = suites is not None
        self._quarantined: dict[tuple[str, str], Evaluation] = {}
        self._checked: OrderedDict[Hashable, tuple[Program, Verdict]] = OrderedDict()
        """Programs in normal form that came as far as to be timed, and their verdicts till then."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers for good, from any thread, even in the middle of an evaluation."""
        self._workers.end()

    def renew(self) -> None:
        """End the workers; the next program gets others, and is checked whatever it was before."""
        self._workers.close()
        self._checked.clear()

    def start_over(self, config: EvaluatorConfig) -> None:
        """Judge under a config whose secret draws other cases, in the same worker."""
        self.config, self.regressions, self._quarantined = config, [], {}

    def keep_builds(self, folder: Path) -> None:
        """Compile nothing twice, not for other secrets or processes either; every stage judges.

        It is for programs that are trusted: nothing else keeps one from changing what another is
        compiled to, or itself later.
        """
        self.renew()
        self._workers.kept_builds = folder

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the workers that are there."""
        return self._workers.processes

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; starts the worker."""
        return self._workers.info

    @property
    def cases(self) -> CaseSource:
        """Return what draws the cases that the config asks for."""
        return CaseSource(self.config, self._suites, self.regressions, self._draws_ahead)

    def evaluate(self, task: Task, program: Program, *, tried: int = 1) -> Evaluation:
        """Judge one program. Whatever it does is data in the evaluation.

        A program that has taken a worker down is quarantined: it never runs here again. It has
        done so only where no other candidate ran in that worker before. `tried`
        counts the candidates of the task so far, this one included: where time is measured, the
        luckiest of many must show more than the first.

        Raises:
            DeviceError: the device or the machine failed, so that there is no verdict.
        """
        known = self._quarantined.get((task.fingerprint, program.id))
        if known is not None:
            return known
        started, is_shared = time.perf_counter(), bool(self.processes)
        verdict = self._judged(task, program, tried)
        if is_shared and _blames_its_process(verdict):
            # Another candidate may have spoilt what this one died of: it gets its own process.
            self.renew()
            verdict = self._judged(task, program, tried)
        evaluation = verdict.conclude(
            task.fingerprint, program.id, self.info, time.perf_counter() - started
        )
        if verdict.failure is not None and verdict.failure.lost_worker:
            # A process that is only suspected goes too, with what it holds on the GPU.
            self.renew()
            self._quarantined[task.fingerprint, program.id] = evaluation
        return evaluation

    def _judged(self, task: Task, program: Program, tried: int) -> Verdict:
        """Put a program through the stages once.

        One that is to be confirmed, and was just checked on the same cases, goes on from there.
        """
        self._workers.config = self.config
        key = self._all_that_checks_depend_on(task, program)
        is_known = self.config.through is Stage.CONFIRMATION and key in self._checked
        normal, checked = self._checked[key] if is_known else (program, None)
        verdict = checked.again() if checked else Verdict()
        context = Context(
            task, program, self.config, self.info, verdict, self.cases, self._workers, tried
        )
        try:
            if checked:
                context.program, context.trial = normal, self._workers.trial(normal)
            run_pipeline(context, FROM_TIMING if checked else PIPELINE)
        except Failure as failure:
            if failure.lost_worker and self._workers.is_over:
                raise DeviceError("interrupted: its evaluator was closed.") from None
            _name_the_shape(failure, task)
            verdict.fail(failure)
            verdict.case = self._remember(task, failure)
        if not verdict.failure and (untimed := verdict.untimed()):
            self._checked[key] = (context.program, untimed)
            while len(self._checked) > MOST_CHECKED:
                self._checked.popitem(last=False)
        return verdict

    def _all_that_checks_depend_on(self, task: Task, program: Program) -> Hashable:
        config = self.config.model_copy(update={"through": Stage.TIMING})
        caught = frozenset(k.id for k in self.regressions if k.task == task.fingerprint)
        return task.fingerprint, program.id, config, caught

    def _secret_of(self, reference: Reference) -> str:
        """Return what drew a visible case: one that was kept before has a secret of its own."""
        case = reference.case
        for known in self.regressions:
            if known.case == case and _are_same(case.inputs(known.secret), reference.inputs):
                return known.secret
        return self.cases.secret("visible")

    def _remember(self, task: Task, failure: Failure) -> str:
        """Keep the visible case that a program failed on; return its id, or nothing."""
        if failure.reference is None or failure.reference.case.is_hidden:
            return ""
        case = failure.reference.case
        kept = CaughtCase.of(task.fingerprint, case, self._secret_of(failure.reference))
        if kept not in self.regressions:
            self.regressions.append(kept)
        return kept.id


def _name_the_shape(failure: Failure, task: Task) -> None:
    """Say at which shape a program strays, where that is not its task's own.

    A wrong answer names its shape itself, and a hidden case none.
    """
    reference = failure.reference
    if failure.mismatches or reference is None or reference.case.is_hidden:
        return
    if reference.case.graph.fingerprint != task.fingerprint:
        shapes = ", ".join(reference.case.shapes)
        failure.summary = f"{failure.summary.rstrip('.')}{AT_SHAPE}{shapes}."


def _blames_its_process(verdict: Verdict) -> bool:
    """Say whether a program fails because its process died; one that was too slow did not."""
    failure = verdict.failure
    return failure is not None and failure.lost_worker and failure.status is not Status.TIMEOUT


def _are_same(some: Sequence[Array], others: Sequence[Array]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(same_bytes(one, other) for one, other in pairs)
