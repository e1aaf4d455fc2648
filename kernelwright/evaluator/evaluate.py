"""The whole verdict: stages in order, each a fact about one program, stopping at the first no."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Self

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.diagnose.hint import hinted
from kernelwright.evaluator.diagnose.shrink import shrink
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.inputs.caught_case import RegressionCase
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.shape import hidden_graphs, timed_graphs, visible_graphs
from kernelwright.evaluator.inputs.suite import (
    HIDDEN_DISTRIBUTIONS,
    Suite,
    hidden_suite,
    visible_suite,
    with_regressions,
)
from kernelwright.evaluator.inputs.suite_cache import Shelf
from kernelwright.evaluator.speed.timing_cases import TimingCases, timing_cases
from kernelwright.evaluator.stages.examination import Examination
from kernelwright.evaluator.stages.trial import Failure, Trial, explain
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.evaluator.worker.service import Forget
from kernelwright.evaluator.worker.start import open_worker, ready_cache
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import Device, DeviceInfo
from kernelwright.metal.kernel import MathMode, Program

_FORGET_TIMEOUT_S = 30.0
_ORDER = tuple(Stage)
_GPUS = ("metal", "cuda")
Turn = Callable[[], AbstractContextManager[None]]
"""Waits until nobody else uses the device, and keeps it meanwhile."""


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
        regressions: Sequence[RegressionCase] = (),
        shelf: Shelf | None = None,
        turn: Turn = nullcontext,
    ) -> None:
        """Judge on `device`; evaluators of one config that share a shelf build each suite once.

        Those that share a device which measures take a `turn` each while it works for them; what
        needs the host alone, the sanitizer's runs among it, they do side by side.
        """
        self.config = config or EvaluatorConfig()
        self.regressions = list(regressions)
        """Cases that have caught a program, those found here last; keep them for the next time."""
        self._device = device
        self._worker: Worker | None = None
        self._simulator: Worker | None = None
        """Sanitizes what is meant for a GPU; unused where the device is the simulator itself."""
        self._info: DeviceInfo | None = None
        self._shelf = shelf or Shelf()
        self._turn = turn
        self._has_turn = False
        self._primed: set[MathMode] = set()
        self._quarantined: dict[tuple[str, str], Evaluation] = {}

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
        """End the workers, from any thread, even in the middle of an evaluation."""
        workers = (self._worker, self._simulator)
        self._worker = self._simulator = None
        for worker in workers:
            if worker is not None:
                worker.close()

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the workers that are there."""
        workers = (self._worker, self._simulator)
        return tuple(worker.process for worker in workers if worker is not None)

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; starts the worker."""
        if self._info is None:
            self._ready_worker()
        assert self._info is not None
        return self._info

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
            self.close()
            verdict = self._judged(task, program, tried)
        evaluation = verdict.conclude(
            task.fingerprint, program.id, self.info, time.perf_counter() - started
        )
        if verdict.failure is not None and verdict.failure.lost_worker:
            # A process that is only suspected goes too, with what it holds on the GPU.
            self.close()
            self._quarantined[task.fingerprint, program.id] = evaluation
        return evaluation

    def _judged(self, task: Task, program: Program, tried: int) -> Verdict:
        """Put a program through the stages once."""
        verdict = Verdict()
        try:
            self._examine(Examination(task, self.config, self.info, verdict, tried), program)
        except Failure as failure:
            verdict.fail(failure)
            self._remember(task, failure)
        return verdict

    def _remember(self, task: Task, failure: Failure) -> None:
        """Keep the visible case that a program failed on."""
        if failure.reference is None or failure.reference.case.is_hidden:
            return
        case = failure.reference.case
        kept = RegressionCase.of(task.fingerprint, case, self._secret("visible"))
        if kept not in self.regressions:
            self.regressions.append(kept)

    def _examine(self, examination: Examination, program: Program) -> None:
        task = examination.task
        plain = examination.check_text(program)
        self._prime(plain)
        trial = self._fresh_trial(plain)
        suite = self._suite("visible", task, program)
        examination.compile(trial, suite)
        examination.check_proof(suite)
        simulated = self._sanitizing_trial(trial, plain)
        examination.sanitize(simulated, suite)
        times = self.info.measures_time and self._wants(Stage.TIMING)
        cases = self._timing_cases(task) if times else None
        try:
            with self._on_device():
                self._examine_on_device(examination, trial, simulated, suite, cases)
        finally:
            if times and examination.verdict.has_come_to(Stage.TIMING):
                examination.count(simulated, suite)

    def _examine_on_device(
        self,
        examination: Examination,
        trial: Trial,
        simulated: Trial,
        suite: Suite,
        cases: TimingCases | None,
    ) -> None:
        task, verdict, program = examination.task, examination.verdict, trial.program
        try:
            right = examination.check_cases(trial, suite)
        except Failure as failure:
            found = explain(shrink(trial, task, failure), simulated)
            raise hinted(found, program) from None
        examination.check_determinism(trial, suite, right)
        verdict.summary = f"correct in {verdict.cases} cases"
        is_faster: bool | None = None
        if cases is not None:
            proves = self._wants(Stage.CONFIRMATION)
            is_faster = examination.measure(trial, cases, proves=proves)
        elif self._wants(Stage.TIMING):
            examination.predict(trial, suite)
        if self._wants(Stage.HIDDEN):
            hidden = self._suite("hidden", task, program)
            unseen = self._unseen_cases(task, program) if is_faster else ()
            examination.pass_hidden_gate(trial, hidden, unseen)
        if self._wants(Stage.CONFIRMATION):
            fresh = self._suite("confirmation", task, program)
            again = self._confirming_cases(task) if is_faster else None
            examination.confirm(lambda: self._trial_in_a_new_process(program), fresh, again)
            examination.promote(is_faster=is_faster)

    def _wants(self, stage: Stage) -> bool:
        return _ORDER.index(stage) <= _ORDER.index(self.config.through)

    def _suite(self, kind: str, task: Task, program: Program) -> Suite:
        """Return the cases of a kind; programs that serve the same shapes share them."""
        config = self.config.model_copy(update={"secret": self._secret(kind)})
        find = visible_graphs if kind == "visible" else hidden_graphs
        graphs = find(task, program, config)

        def build() -> Suite:
            if kind != "visible":
                return hidden_suite(task, graphs, config)
            suite = visible_suite(task, graphs, config)
            return with_regressions(suite, task, self.regressions, graphs)

        key = (config.secret, task.fingerprint, *(g.fingerprint for g in graphs))
        return self._shelf.take(key, build)

    def _timing_cases(self, task: Task) -> TimingCases:
        """Return what every candidate of a task is timed on."""
        return self._cases_for(task, task.graph, "timing", (Distribution.NORMAL,))

    def _unseen_cases(self, task: Task, program: Program) -> tuple[TimingCases, ...]:
        config = self.config.model_copy(update={"secret": self._secret("hidden")})
        kinds = HIDDEN_DISTRIBUTIONS
        graphs = timed_graphs(task, program, config)
        return tuple(self._cases_for(task, g, "hidden timing", kinds) for g in graphs)

    def _confirming_cases(self, task: Task) -> TimingCases:
        kinds = HIDDEN_DISTRIBUTIONS
        return self._cases_for(task, task.graph, "confirmation timing", kinds)

    def _cases_for(
        self, task: Task, graph: Graph, kind: str, distributions: Sequence[Distribution]
    ) -> TimingCases:
        """Return what candidates are timed on; those of one shape and purpose share it."""
        secret, plan = self._secret(kind), self.config.timing

        def build() -> TimingCases:
            return timing_cases(graph, task.output_tolerances, plan, secret, distributions)

        return self._shelf.take((kind, secret, task.fingerprint, graph.fingerprint), build)

    def _secret(self, kind: str) -> str:
        """Return what draws the cases of a kind: from one, the others cannot be found."""
        return hashlib.sha256(f"{self.config.secret}|{kind}".encode()).hexdigest()

    def _fresh_trial(self, program: Program) -> Trial:
        worker = self._ready_worker()
        if not _empties(worker):
            worker = self._ready_worker()
        return Trial(worker, program, self.config)

    def _prime(self, program: Program) -> None:
        """Have the shared cache hold what the simulator compiles this program with."""
        modes = {kernel.math_mode for kernel in program.kernels} - self._primed
        if modes:
            ready_cache(self.config.memory_bytes, sorted(modes))
            self._primed |= modes

    def _sanitizing_trial(self, trial: Trial, program: Program) -> Trial:
        """Return where the sanitizer runs: a candidate for a GPU goes to the simulator first."""
        if self.info.name not in _GPUS:
            return trial
        simulator = self._simulator
        if simulator is None or not simulator.is_alive or not _empties(simulator):
            # What exceeds Metal's limit there must do so here, and nothing else may.
            limit = self.info.threadgroup_bytes
            simulator, _ = open_worker("simulator", self.config.memory_bytes, limit)
        self._simulator = simulator
        return Trial(simulator, program, self.config)

    def _trial_in_a_new_process(self, program: Program) -> Trial:
        if self._worker is not None:
            self._worker.close()
        return self._fresh_trial(program)

    def _ready_worker(self) -> Worker:
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        with self._having_turn():
            self._worker, self._info = open_worker(
                self._device, self.config.memory_bytes, self.config.threadgroup_bytes
            )
        return self._worker

    @contextmanager
    def _having_turn(self) -> Iterator[None]:
        if self._has_turn:
            yield
            return
        with self._turn():
            self._has_turn = True
            try:
                yield
            finally:
                self._has_turn = False

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Have the device to ourselves, and leave nothing there that is still to be freed."""
        with self._having_turn():
            try:
                yield
            finally:
                worker = self._worker
                if worker is not None and worker.is_alive and self.info.measures_time:
                    # One that hangs is closed by now, and the next candidate gets another.
                    with suppress(DeviceError):
                        _empties(worker)


def _blames_its_process(verdict: Verdict) -> bool:
    """Say whether a program fails because its process died; one that was too slow did not."""
    failure = verdict.failure
    return failure is not None and failure.lost_worker and failure.status is not Status.TIMEOUT


def _empties(worker: Worker) -> bool:
    """Have a worker forget the last candidate; False where it dies of what that has left.

    Raises:
        DeviceError: the worker hangs, so its device may too.
    """
    try:
        worker.call(Forget(), _FORGET_TIMEOUT_S)
    except WorkerLost as e:
        if e.loss == "crash":
            return False
        raise DeviceError(f"the device's worker was lost between two candidates: {e}.") from e
    return True
