"""The stages that a program passes, each a method that raises `Failure` at the first no."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Speedup, Stage, Status
from kernelwright.evaluator.launch import bytes_needed, check_launch, fit
from kernelwright.evaluator.normal import normalise
from kernelwright.evaluator.prediction import (
    predict_baselines,
    predict_program,
    speedups_of,
)
from kernelwright.evaluator.reference import Reference
from kernelwright.evaluator.rules import check_program
from kernelwright.evaluator.suite import Suite
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.trial import Failure, Trial, check_answer
from kernelwright.evaluator.verdict import Verdict
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.perf import find_profile


@dataclass(frozen=True)
class Examination:
    """One program for one task before one device."""

    task: Task
    config: EvaluatorConfig
    info: DeviceInfo
    verdict: Verdict

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

    def compile(self, trial: Trial) -> None:
        """Compile for the task's own shapes."""
        with self.verdict.stage(Stage.COMPILE):
            trial.compile(self.task.graph)

    def sanitize(self, trial: Trial, suite: Suite) -> None:
        """Run under the sanitizer: the task's own shape, and the oddest other one."""
        with self.verdict.stage(Stage.SANITIZE) as words:
            chosen = _for_sanitizer(suite)
            for seed, reference in enumerate(chosen):
                trial.run(reference, seed=seed, sanitize=True)
            words.append(f"{len(chosen)} runs without a report")

    def check_cases(self, trial: Trial, suite: Suite) -> None:
        """Compare every output of every case with the oracle."""
        with self.verdict.stage(Stage.CORRECTNESS) as words:
            for seed, reference in enumerate(suite.references):
                deviations = check_answer(trial.run(reference, seed=seed), reference)
                self.verdict.keep_worst(reference, deviations)
                self.verdict.cases += 1
            words.append(_suite_words(suite, self.verdict.cases))

    def check_determinism(self, trial: Trial, suite: Suite) -> None:
        """Repeat the largest case under other thread orders; every bit must stay."""
        with self.verdict.stage(Stage.DETERMINISM) as words:
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
            words.append(f"{self.config.determinism_runs} runs agree")

    def check_proof(self, suite: Suite) -> None:
        """Refuse to call a program correct when no case could have told it from a trivial one."""
        if not suite.proving:
            summary = "no case can tell a right answer from a trivial one for this task."
            raise Failure(Status.UNPROVEN, summary)

    def predict(self, trial: Trial, suite: Suite) -> None:
        """Count what the program does at the task's own shape and predict its time."""
        with self.verdict.stage(Stage.TIMING) as words:
            own = suite.references[0]
            self.verdict.counters = trial.run(own, count=True).counters
            if not self.verdict.counters:
                words.append("this device neither measures nor counts")
                return
            profile = find_profile(self.config.chip)
            prediction = predict_program(self.verdict.counters, profile)
            self.verdict.predicted_us = prediction.microseconds
            self.verdict.bound = prediction.bound
            baselines = predict_baselines(self.task.graph, profile)
            self.verdict.speedups = speedups_of(prediction, baselines)
            words.append(
                f"predicted for {profile.name}, not measured: {prediction.microseconds:.3g} us, "
                f"{fastest(self.verdict.speedups).ratio:.3g}x the fastest baseline's prediction"
            )

    def pass_hidden_gate(self, trial: Trial, suite: Suite) -> None:
        """Judge on cases that nobody has seen; a failure says that, and nothing about them."""
        with self.verdict.stage(Stage.HIDDEN) as words:
            self._pass_quietly(trial, suite, "the hidden gate")
            if self.verdict.speedups and self._is_ahead:
                self._keep_pace(trial, suite)
            words.append("hidden shapes, seeds and distributions hold")

    def confirm(self, open_trial: Callable[[], Trial], suite: Suite) -> None:
        """Repeat in a fresh process, on fresh seeds, in reversed order."""
        with self.verdict.stage(Stage.CONFIRMATION) as words:
            trial = open_trial()
            reversed_suite = Suite(tuple(reversed(suite.references)))
            self._pass_quietly(trial, reversed_suite, "the confirmation")
            words.append("a fresh process on fresh seeds agrees")

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

    def _keep_pace(self, trial: Trial, suite: Suite) -> None:
        """Ask for no regression at any hidden shape."""
        profile, seen = find_profile(self.config.chip), {self.task.graph.fingerprint}
        for reference in suite.references:
            graph = reference.case.graph
            if graph.fingerprint in seen:
                continue
            seen.add(graph.fingerprint)
            prediction = predict_program(trial.run(reference, count=True).counters, profile)
            ratio = fastest(speedups_of(prediction, predict_baselines(graph, profile))).ratio
            if ratio < 1 - self.config.timing.minimum_effect:
                summary = "the hidden gate did not hold: slower than MLX at an unseen shape."
                raise Failure(Status.UNPROVEN, summary)

    @property
    def _is_ahead(self) -> bool:
        """True when the program beats the fastest baseline by more than the minimum effect."""
        return fastest(self.verdict.speedups).lower > 1 + self.config.timing.minimum_effect

    def promote(self) -> None:
        """Promote what is faster than the fastest baseline; all gates have held."""
        gain = fastest(self.verdict.speedups)
        if self._is_ahead:
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
