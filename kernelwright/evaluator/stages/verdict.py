"""A verdict in the making: stages as they end, and what they found."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernelwright.evaluator.evaluation import (
    Conditions,
    Evaluation,
    OutputAccuracy,
    Samples,
    Speedup,
    Stage,
    StageResult,
    Status,
)
from kernelwright.evaluator.oracle.accuracy import Deviation
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.speed.race import Race, marked
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.metal.device.base import Counters, DeviceInfo
from kernelwright.timeline import span


@dataclass(frozen=True)
class _Worst:
    """The worst errors of one output over all cases so far."""

    absolute: float
    relative: float
    reference: Reference
    of_row: Deviation
    """Of the case with the row that is furthest off, in which MLX's own error stands beside it."""


@dataclass
class Verdict:
    """What an evaluation is made of, gathered stage by stage."""

    stages: list[StageResult] = field(default_factory=list)
    cases: int = 0
    counters: tuple[Counters, ...] = ()
    predicted_us: float | None = None
    bound: str = ""
    samples: tuple[Samples, ...] = ()
    speedups: tuple[Speedup, ...] = ()
    measured_us: float | None = None
    conditions: Conditions | None = None
    is_faster: bool | None = None
    """What races against the baselines said; None where nothing is measured."""
    status: Status = Status.CORRECT
    summary: str = ""
    failure: Failure | None = None
    case: str = ""
    """The id of the visible case that failed."""
    summary_untimed: str = ""
    """What it was before the program was timed."""
    _worst: dict[int, _Worst] = field(default_factory=dict)

    def again(self) -> "Verdict":
        """Return a verdict that goes on from here by itself."""
        return replace(self, stages=list(self.stages), _worst=dict(self._worst))

    def untimed(self) -> "Verdict | None":
        """Return one that goes on from before the program was timed, if it was."""
        if not any(result.stage is Stage.TIMING for result in self.stages):
            return None
        before = self.again()
        before.forget_after(Stage.COUNT)
        before.status, before.summary = Status.CORRECT, self.summary_untimed
        return before

    def forget_after(self, stage: Stage) -> None:
        """Forget what stages after this one found, beside which it was at work."""
        order = tuple(Stage)
        last = order.index(stage)
        self.stages = [result for result in self.stages if order.index(result.stage) <= last]
        self.stages.sort(key=lambda result: order.index(result.stage))
        if last < order.index(Stage.CORRECTNESS):
            self.cases, self._worst = 0, {}
        if last < order.index(Stage.COUNT):
            self.counters, self.predicted_us, self.bound = (), None, ""
        if last < order.index(Stage.TIMING):
            self.samples, self.speedups = (), ()
            self.measured_us, self.conditions, self.is_faster = None, None, None

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[list[str]]:
        """Time a stage and note its outcome; the body may append words for a person."""
        started, words = time.perf_counter(), list[str]()
        try:
            with span(f"stage {stage}"):
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

    def is_ahead(self, least_gain: float) -> bool:
        """Say whether the program beats the fastest baseline by more than the least gain."""
        return bool(self.speedups) and fastest(self.speedups).bounds[0] > 1 + least_gain

    def keep_worst(self, reference: Reference, deviations: tuple[Deviation, ...]) -> None:
        """Remember the worst errors of each output: of its elements, and of a row."""
        for place, deviation in enumerate(deviations):
            before = self._worst.get(place)
            new = _Worst(
                deviation.maximum_absolute, deviation.maximum_relative, reference, deviation
            )
            self._worst[place] = new if before is None else _worse(before, new)

    def _accuracy(self) -> tuple[OutputAccuracy, ...]:
        return tuple(
            OutputAccuracy(
                output=place,
                maximum_absolute=worst.absolute,
                maximum_relative=worst.relative,
                row_relative=worst.of_row.row_relative,
                reference_row_relative=worst.reference.mlx_row_error(place),
                bound=worst.of_row.bound,
            )
            for place, worst in sorted(self._worst.items())
        )

    def keep_race(self, race: Race, bytes_per_s: float) -> None:
        """Remember what was measured, and in which conditions."""
        self.samples, self.speedups = (*self.samples, *race.samples), race.speedups
        if race.status is not Status.CORRECT:
            return
        self.measured_us = race.candidate_ns / 1e3
        self.conditions = Conditions(
            copy_bytes_per_s=bytes_per_s,
            floor_ns=race.floor_ns,
            noise=race.aa_spread,
            rejected_blocks=race.rejected_blocks,
        )

    def publish(self, race: Race, bytes_per_s: float) -> None:
        """Let a confirmation's race stand for what the search's own one had chosen to show.

        The samples of both stay, those of the confirmation marked.
        """
        confirmed = replace(race, samples=marked(race.samples, "confirmation"))
        self.keep_race(confirmed, bytes_per_s)

    def fail(self, failure: Failure) -> None:
        """Let a failure be the verdict."""
        self.failure, self.status, self.summary = failure, failure.status, failure.summary

    def conclude(
        self, task: str, program: str, device: DeviceInfo, duration_s: float
    ) -> Evaluation:
        """Return the finished record."""
        failure = self.failure
        return Evaluation(
            task=task,
            program=program,
            device=device,
            status=self.status,
            summary=self.summary,
            stages=tuple(self.stages),
            diagnostics=failure.diagnostics if failure else (),
            reports=failure.reports if failure else (),
            mismatches=failure.mismatches if failure else (),
            case=self.case,
            accuracy=self._accuracy(),
            cases=self.cases,
            counters=self.counters,
            predicted_us=self.predicted_us,
            bound=self.bound,
            samples=self.samples,
            speedups=self.speedups,
            measured_us=self.measured_us,
            conditions=self.conditions,
            duration_s=duration_s,
        )


def _worse(one: _Worst, other: _Worst) -> _Worst:
    """Return the worst errors of both."""
    row = max(one, other, key=lambda worst: worst.of_row.row_relative)
    return replace(
        row,
        absolute=max(one.absolute, other.absolute),
        relative=max(one.relative, other.relative),
    )


def fastest(speedups: Sequence[Speedup]) -> Speedup:
    """Return the comparison with the fastest baseline: the one that counts."""
    return min(speedups, key=lambda s: s.ratio)
