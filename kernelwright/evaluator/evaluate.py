"""The whole verdict: stages in order, each a fact about one program, stopping at the first no."""

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from kernelwright.errors import InputError
from kernelwright.evaluator.accuracy import Deviation
from kernelwright.evaluator.candidate import Forget
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import (
    Evaluation,
    OutputAccuracy,
    Stage,
    StageResult,
    Status,
)
from kernelwright.evaluator.launch import bytes_needed, check_launch, fit
from kernelwright.evaluator.normal import normalise
from kernelwright.evaluator.opening import open_worker
from kernelwright.evaluator.reference import Reference
from kernelwright.evaluator.rules import check_program
from kernelwright.evaluator.shape import visible_graphs
from kernelwright.evaluator.suite import Suite, visible_suite
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.trial import Failure, Trial, check_answer
from kernelwright.evaluator.worker import Worker
from kernelwright.metal.device.base import Counters, Device, DeviceInfo
from kernelwright.metal.kernel import Program

_OPEN_TIMEOUT_S = 120.0
_KEPT_SUITES = 8
_SUITES_BYTES = 1 << 30
_ORDER = tuple(Stage)


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


@dataclass
class _Record:
    """What a verdict is made of, gathered stage by stage."""

    stages: list[StageResult] = field(default_factory=list)
    accuracy: tuple[OutputAccuracy, ...] = ()
    cases: int = 0
    counters: tuple[Counters, ...] = ()
    status: Status = Status.CORRECT
    summary: str = ""
    failure: Failure | None = None

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[list[str]]:
        """Time a stage and note its outcome; the body may append words for a person."""
        started, words = time.perf_counter(), list[str]()
        try:
            yield words
        except Failure as failure:
            self._note(stage, failure.summary, started, passed=False)
            raise
        self._note(stage, " ".join(words), started, passed=True)

    def _note(self, stage: Stage, summary: str, started: float, *, passed: bool) -> None:
        duration_s = time.perf_counter() - started
        self.stages.append(
            StageResult(stage=stage, passed=passed, summary=summary, duration_s=duration_s)
        )


class Evaluator:
    """Judges programs on one device, with a warm worker and one suite of cases per task."""

    def __init__(
        self, device: str | Device = "simulator", config: EvaluatorConfig | None = None
    ) -> None:
        self.config = config or EvaluatorConfig()
        self._device = device
        self._worker: Worker | None = None
        self._info: DeviceInfo | None = None
        self._suites: OrderedDict[tuple[str, ...], Suite] = OrderedDict()
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
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; starts the worker."""
        self._ready_worker()
        assert self._info is not None
        return self._info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Judge one program. Whatever it does is data in the evaluation.

        Raises:
            DeviceError: the device or the machine failed, so that there is no verdict.
        """
        started = time.perf_counter()
        known = self._quarantined.get((task.fingerprint, program.id))
        if known is not None:
            return known
        record = _Record()
        try:
            self._run_stages(task, program, record)
        except Failure as failure:
            record.failure = failure
            record.status, record.summary = failure.status, failure.summary
        evaluation = self._conclude(task, program, record, time.perf_counter() - started)
        if record.failure is not None and record.failure.lost_worker:
            self.close()
            self._quarantined[task.fingerprint, program.id] = evaluation
        return evaluation

    def _run_stages(self, task: Task, program: Program, record: _Record) -> None:
        with record.stage(Stage.STATIC):
            plain = self._check_text(task, program)
        trial = Trial(self._fresh_worker(), plain, self.config)
        with record.stage(Stage.COMPILE):
            trial.compile(task.graph)
        suite = self._visible_suite(task, program)
        with record.stage(Stage.SANITIZE) as words:
            words.append(self._sanitize(trial, suite))
        with record.stage(Stage.CORRECTNESS) as words:
            self._check_cases(trial, suite, record)
            words.append(_suite_words(suite, record.cases))
        with record.stage(Stage.DETERMINISM) as words:
            words.append(self._check_determinism(trial, suite))
        if not suite.proving:
            raise Failure(
                Status.UNPROVEN,
                "no case can tell a right answer from a trivial one for this task.",
            )
        record.summary = f"correct in {record.cases} cases"

    def _check_text(self, task: Task, program: Program) -> Program:
        """Apply everything that needs no compiler."""
        try:
            fit(program, task.graph)
        except InputError as e:
            raise Failure(Status.MALFORMED, str(e)) from e
        if breaches := check_program(program):
            first = breaches[0]
            summary = f"{first.file}:{first.line}: {first.message}"
            raise Failure(Status.FORBIDDEN, summary, diagnostics=breaches)
        plain = normalise(program)
        bound = fit(plain, task.graph)
        if (needed := bytes_needed(bound)) > self.config.memory_bytes:
            summary = f"its arrays take {needed} bytes, {self.config.memory_bytes} are allowed."
            raise Failure(Status.OUT_OF_MEMORY, summary)
        if impossible := check_launch(bound, self.info):
            raise Failure(Status.LAUNCH_ERROR, impossible[0].message, diagnostics=impossible)
        return plain

    def _sanitize(self, trial: Trial, suite: Suite) -> str:
        """Run under the sanitizer: the task's own shape, and the oddest other one."""
        chosen = _for_sanitizer(suite)
        for seed, reference in enumerate(chosen):
            trial.run(reference, seed=seed, sanitize=True)
        return f"{len(chosen)} runs without a report"

    def _check_cases(self, trial: Trial, suite: Suite, record: _Record) -> None:
        worst: dict[int, OutputAccuracy] = {}
        for seed, reference in enumerate(suite.references):
            deviations = check_answer(trial.run(reference, seed=seed), reference)
            for place, deviation in enumerate(deviations):
                _keep_worst(worst, place, deviation, reference)
            record.cases += 1
        record.accuracy = tuple(worst[place] for place in sorted(worst))

    def _check_determinism(self, trial: Trial, suite: Suite) -> str:
        """Repeat the largest case under other thread orders; every bit must stay."""
        reference = max(suite.references, key=_elements)
        first = trial.run(reference, seed=0)
        for seed in range(1, self.config.determinism_runs):
            again = trial.run(reference, seed=seed)
            for place, (a, b) in enumerate(zip(first.outputs, again.outputs, strict=True)):
                if a.tobytes() != b.tobytes():
                    raise Failure(
                        Status.NONDETERMINISTIC,
                        f"output {place} changes from run to run ({reference.case.name}); "
                        "look for a missing barrier or an order-dependent sum.",
                        reference=reference,
                    )
        return f"{self.config.determinism_runs} runs agree"

    def _visible_suite(self, task: Task, program: Program) -> Suite:
        graphs = visible_graphs(task, program, self.config)
        key = ("visible", task.fingerprint, *(g.fingerprint for g in graphs))
        if key not in self._suites:
            self._suites[key] = visible_suite(task, graphs, self.config)
            self._trim_suites()
        self._suites.move_to_end(key)
        return self._suites[key]

    def _trim_suites(self) -> None:
        """Forget the suites that were used longest ago, beyond a number and a size."""
        while len(self._suites) > _KEPT_SUITES or (
            len(self._suites) > 1 and sum(map(_suite_bytes, self._suites.values())) > _SUITES_BYTES
        ):
            self._suites.popitem(last=False)

    def _fresh_worker(self) -> Worker:
        worker = self._ready_worker()
        worker.call(Forget(), _OPEN_TIMEOUT_S)
        return worker

    def _ready_worker(self) -> Worker:
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        worker, self._info = open_worker(self._device, self.config.memory_bytes)
        self._worker = worker
        return worker

    def _conclude(
        self, task: Task, program: Program, record: _Record, duration_s: float
    ) -> Evaluation:
        failure = record.failure
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=self.info,
            status=record.status,
            summary=record.summary,
            stages=tuple(record.stages),
            diagnostics=failure.diagnostics if failure else (),
            reports=failure.reports if failure else (),
            mismatches=failure.mismatches if failure else (),
            accuracy=record.accuracy,
            cases=record.cases,
            counters=record.counters,
            duration_s=duration_s,
        )


def _suite_words(suite: Suite, cases: int) -> str:
    words = f"{cases} cases, {suite.proving} of them refuse every trivial answer"
    if suite.dropped:
        words += f"; {len(suite.dropped)} dropped because MLX itself fails them"
    if suite.unseen_inputs:
        words += f"; no case shows whether inputs {suite.unseen_inputs} are read"
    return words


def _for_sanitizer(suite: Suite) -> Sequence[Reference]:
    own = suite.references[0]
    others = [r for r in suite.references if r.case.graph is not own.case.graph]
    return [own, *others[:1]]


def _elements(reference: Reference) -> int:
    return sum(y.type.size for y in reference.yardsticks)


def _suite_bytes(suite: Suite) -> int:
    return sum(
        sum(a.nbytes for a in r.inputs) + sum(y.expected.nbytes for y in r.yardsticks)
        for r in suite.references
    )


def _keep_worst(
    worst: dict[int, OutputAccuracy], place: int, deviation: Deviation, reference: Reference
) -> None:
    yardstick, before = reference.yardsticks[place], worst.get(place)
    if before is None or deviation.row_relative / max(yardstick.bound, 1e-300) > (
        before.row_relative / max(before.bound, 1e-300)
    ):
        worst[place] = OutputAccuracy(
            output=place,
            maximum_absolute=deviation.maximum_absolute,
            maximum_relative=deviation.maximum_relative,
            row_relative=deviation.row_relative,
            reference_row_relative=yardstick.reference_error,
            bound=yardstick.bound,
        )
