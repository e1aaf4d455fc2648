"""The stages that a program passes, each a method that raises `Failure` at the first no."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Speedup, Stage, Status
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.accuracy import same_bytes
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.speed.prediction import (
    PredictedTime,
    predict_baselines,
    predict_program,
    speedups_of,
)
from kernelwright.evaluator.speed.race import marked
from kernelwright.evaluator.speed.race_runner import Outcome, Track, profile_of
from kernelwright.evaluator.speed.timing_cases import TimingCases
from kernelwright.evaluator.stages.trial import Failure, Trial, check_answer
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.static.launch import bytes_needed, check_launch, fit
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.static.rules import check_program
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo, RunResult
from kernelwright.metal.kernel import Program
from kernelwright.metal.perf import ChipProfile, find_profile

_SLOWER_UNSEEN = "the hidden gate did not hold: slower than MLX at an unseen shape."


@dataclass(frozen=True)
class Examination:
    """One program for one task before one device."""

    task: Task
    config: EvaluatorConfig
    info: DeviceInfo
    verdict: Verdict
    tried: int = 1
    """Candidates tried on the task so far, this one included."""

    @property
    def _track(self) -> Track:
        return Track(self.config, self.info, self.tried)

    def check_text(self, program: Program) -> Program:
        """Apply everything that needs no compiler; return the program in normal form."""
        with self.verdict.stage(Stage.STATIC):
            try:
                fit(program, self.task.graph)
            except InputError as e:
                raise Failure(Status.MALFORMED, str(e)) from e
            if breaches := check_program(program):
                first = breaches[0]
                summary = f"{first.file}:{first.line}: {first.message}"
                raise Failure(Status.FORBIDDEN, summary, diagnostics=breaches)
            plain = normalise(program)
            bound = fit(plain, self.task.graph)
            if (needed := bytes_needed(bound)) > self.config.memory_bytes:
                limit = self.config.memory_bytes
                summary = f"its arrays take {needed} bytes, {limit} are allowed; use fewer."
                raise Failure(Status.OUT_OF_MEMORY, summary)
            if impossible := check_launch(bound, self.info):
                summary = impossible[0].message
                raise Failure(Status.LAUNCH_ERROR, summary, diagnostics=impossible)
            return plain

    def compile(self, trial: Trial, suite: Suite) -> None:
        """Compile for the task's own shapes, and on a GPU for all others while it is not needed."""
        with self.verdict.stage(Stage.COMPILE):
            trial.compile(self.task.graph)
            if self.info.measures_time:
                trial.compile_ahead([r.case.graph for r in suite.references])

    def sanitize(self, trial: Trial, suite: Suite) -> None:
        """Run under the sanitizer: the task's own shape, and the oddest other one."""
        with self.verdict.stage(Stage.SANITIZE) as words:
            chosen = _for_sanitizer(suite)
            for seed, reference in enumerate(chosen):
                trial.run(reference, seed=seed, sanitize=True)
            for reference in suite.straying:
                trial.judge_straying(reference)
            strayed = len(suite.straying)
            more = f"; {strayed} with indices out of range agree elsewhere" if strayed else ""
            words.append(f"{len(chosen)} runs without a report{more}")

    def check_cases(self, trial: Trial, suite: Suite) -> RunResult:
        """Compare every output of every case with the oracle; return the largest case's."""
        largest = suite.largest
        with self.verdict.stage(Stage.CORRECTNESS) as words:
            for seed, reference in enumerate(suite.references):
                result = trial.run(reference, seed=seed)
                deviations = check_answer(result, reference)
                self.verdict.keep_worst(reference, deviations)
                self.verdict.cases += 1
                if seed == largest:
                    kept = result
            words.append(_suite_words(suite, self.verdict.cases))
        return kept

    def check_determinism(self, trial: Trial, suite: Suite, right: RunResult) -> None:
        """Repeat the largest case under other thread orders; every bit must stay as it is right.

        `right` is what `check_cases` returned, under an order of its own: one of the runs.
        """
        with self.verdict.stage(Stage.DETERMINISM) as words:
            reference = suite.references[suite.largest]
            others = [seed for seed in range(self.config.determinism_runs) if seed != suite.largest]
            for seed in others[: self.config.determinism_runs - 1]:
                again = trial.run(reference, seed=seed)
                for place, yardstick in enumerate(reference.yardsticks):
                    a, b = right.outputs[place], again.outputs[place]
                    if yardstick.undefined is not None:
                        a, b = a[~yardstick.undefined], b[~yardstick.undefined]
                    if not same_bytes(a, b):
                        raise Failure(
                            Status.NONDETERMINISTIC,
                            f"output {place} changes from run to run ({reference.case.name}); "
                            "look for a missing barrier or an order-dependent sum.",
                            reference=reference,
                        )
            words.append(f"{self.config.determinism_runs} runs agree")

    def check_proof(self, suite: Suite) -> None:
        """Refuse to call a program correct when no case could have told it from a trivial one."""
        if not suite.is_proof:
            summary = "no case can tell a right answer from a trivial one for this task."
            raise Failure(Status.UNPROVEN, summary)

    def predict(self, trial: Trial, suite: Suite) -> None:
        """Count what the program does at the task's own shape and predict its time."""
        with self.verdict.stage(Stage.TIMING) as words:
            profile = find_profile(self.config.chip_for(self.info))
            prediction = self._count(trial, suite, profile)
            if prediction is None:
                words.append("this device neither measures nor counts")
                return
            baselines = predict_baselines(self.task.graph, profile)
            self.verdict.speedups = speedups_of(prediction, baselines)
            words.append(
                f"predicted for {profile.name}, not measured: {prediction.microseconds:.3g} us, "
                f"{fastest(self.verdict.speedups).ratio:.3g}x the fastest baseline's prediction"
            )

    def count(self, simulated: Trial, suite: Suite) -> None:
        """Keep what the simulator counts beside measured times, so that predictions can be judged.

        Counts are an addition: what the simulator is too slow for, a GPU can still time.
        """
        with contextlib.suppress(Failure):
            self._count(simulated, suite, self._profile)

    def _count(self, trial: Trial, suite: Suite, profile: ChipProfile) -> PredictedTime | None:
        """Count what the program does at the task's own shape and predict its time."""
        self.verdict.counters = trial.run(suite.references[0], count=True).counters
        if not self.verdict.counters:
            return None
        prediction = predict_program(self.verdict.counters, profile)
        self.verdict.predicted_us = prediction.microseconds
        self.verdict.bound = prediction.bound
        return prediction

    def measure(self, trial: Trial, cases: TimingCases, *, proves: bool) -> bool:
        """Time the program beside MLX's best; return whether it is faster, when that is asked."""
        with self.verdict.stage(Stage.TIMING) as words:
            outcome = self._track.screen(trial, cases, proves=proves)
            if isinstance(outcome, str):
                words.append(f"not timed, for MLX itself cannot compute this here: {outcome}")
                return False
            found = outcome.race
            self.verdict.keep_race(found, outcome.bytes_per_s)
            if found.status is not Status.CORRECT:
                raise Failure(found.status, found.summary)
            words.append(found.summary)
            self.verdict.summary += f"; {found.summary}"
            return found.is_faster

    @property
    def _profile(self) -> ChipProfile:
        return profile_of(self.info.bare_chip) or find_profile(self.config.chip_for(self.info))

    def pass_hidden_gate(self, trial: Trial, suite: Suite, cases: Sequence[TimingCases]) -> None:
        """Judge on cases that nobody has seen; a failure says that, and nothing about them.

        `cases` are what to time a program on that was measured to be faster: hidden shapes.
        """
        with self.verdict.stage(Stage.HIDDEN) as words:
            self._pass_quietly(trial, suite, "the hidden gate")
            for hidden in cases:
                self._keep_pace(trial, hidden)
            if self._is_ahead and self.verdict.measured_us is None:
                self._keep_predicted_pace(trial, suite)
            words.append("hidden shapes, seeds and distributions hold")

    def confirm(
        self, open_trial: Callable[[], Trial], suite: Suite, cases: TimingCases | None
    ) -> None:
        """Repeat in a fresh process, on fresh seeds, in reversed order.

        `cases` are what to time a program on that was measured to be faster, of every
        distribution in turn.
        """
        with self.verdict.stage(Stage.CONFIRMATION) as words:
            trial = open_trial()
            reversed_suite = Suite(tuple(reversed(suite.references)))
            self._pass_quietly(trial, reversed_suite, "the confirmation")
            if cases is not None:
                self._win_again(trial, cases)
            words.append("a fresh process on fresh seeds agrees")

    def _win_again(self, trial: Trial, cases: TimingCases) -> None:
        outcome = self._race_quietly(trial, cases, self._track.confirm, "the confirmation")
        samples = marked(outcome.race.samples, "confirmation")
        self.verdict.samples = (*self.verdict.samples, *samples)
        if not outcome.race.is_faster:
            summary = "the confirmation did not hold: not faster in a fresh process."
            raise Failure(Status.UNPROVEN, summary)

    def _race_quietly(
        self,
        trial: Trial,
        cases: TimingCases,
        run: Callable[[Trial, TimingCases], Outcome | str],
        what: str,
    ) -> Outcome:
        """Race on inputs that nobody may learn about; any failure is one and the same."""
        words = f"{what} did not hold: the program is right and fast on the visible cases only."
        try:
            outcome = run(trial, cases)
        except Failure as failure:
            raise Failure(Status.UNPROVEN, words, lost_worker=failure.lost_worker) from None
        if isinstance(outcome, str) or outcome.race.status is not Status.CORRECT:
            raise Failure(Status.UNPROVEN, words)
        return outcome

    def _pass_quietly(self, trial: Trial, suite: Suite, what: str) -> None:
        try:
            for seed, reference in enumerate(suite.references):
                check_answer(trial.run(reference, seed=seed), reference)
        except Failure as failure:
            raise Failure(
                Status.UNPROVEN,
                f"{what} did not hold: the program is right on the visible cases only.",
                lost_worker=failure.lost_worker,
            ) from None

    def _keep_pace(self, trial: Trial, cases: TimingCases) -> None:
        """Ask for no measured regression at a hidden shape."""

        def screen(trial: Trial, cases: TimingCases) -> Outcome | str:
            return self._track.screen(trial, cases, proves=False)

        outcome = self._race_quietly(trial, cases, screen, "the hidden gate")
        margin = self.config.timing.minimum_effect + outcome.race.aa_spread
        if fastest(outcome.race.speedups).upper < 1 - margin:
            raise Failure(Status.UNPROVEN, _SLOWER_UNSEEN)

    def _keep_predicted_pace(self, trial: Trial, suite: Suite) -> None:
        """Ask for no predicted regression at any hidden shape."""
        profile, seen = find_profile(self.config.chip_for(self.info)), {self.task.graph.fingerprint}
        for reference in suite.references:
            graph = reference.case.graph
            if graph.fingerprint in seen:
                continue
            seen.add(graph.fingerprint)
            prediction = predict_program(trial.run(reference, count=True).counters, profile)
            ratio = fastest(speedups_of(prediction, predict_baselines(graph, profile))).ratio
            if ratio < 1 - self.config.timing.minimum_effect:
                raise Failure(Status.UNPROVEN, _SLOWER_UNSEEN)

    @property
    def _is_ahead(self) -> bool:
        """True when the program beats the fastest baseline by more than the minimum effect."""
        speedups = self.verdict.speedups
        least = 1 + self.config.timing.minimum_effect
        return bool(speedups) and fastest(speedups).lower > least

    def promote(self, *, is_faster: bool | None) -> None:
        """Promote what is faster than the fastest baseline; all gates have held.

        `is_faster` is what the races said; None where nothing is measured.
        """
        if not self.verdict.speedups:
            return
        gain = fastest(self.verdict.speedups)
        if self._is_ahead if is_faster is None else is_faster:
            self.verdict.status = Status.PROMOTED
            self.verdict.summary += f"; {gain.kind} {gain.ratio:.3g}x of {gain.baseline}, confirmed"
        else:
            self.verdict.summary += f"; not faster than {gain.baseline} ({gain.kind})"


def fastest(speedups: Sequence[Speedup]) -> Speedup:
    """Return the comparison with the fastest baseline: the one that counts."""
    return min(speedups, key=lambda s: s.ratio)


def _suite_words(suite: Suite, cases: int) -> str:
    words = f"{cases} cases, {suite.proving} of them refuse every trivial answer"
    if suite.dropped:
        words += f"; {len(suite.dropped)} dropped, {suite.why_dropped}"
    if suite.unseen_inputs:
        words += f"; no case shows whether inputs {suite.unseen_inputs} are read"
    return words


def _for_sanitizer(suite: Suite) -> Sequence[Reference]:
    own = suite.references[0]
    others = [r for r in suite.references if r.case.graph is not own.case.graph]
    return [own, *others[:1]]
