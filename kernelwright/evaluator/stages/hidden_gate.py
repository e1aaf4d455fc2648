"""The stage that judges on cases that nobody has seen."""

from collections.abc import Callable

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.selection import paced
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections
from kernelwright.evaluator.speed.prediction import (
    predict_baselines,
    predict_program,
    speedups_of,
)
from kernelwright.evaluator.speed.race_runner import Outcome, Track
from kernelwright.evaluator.speed.timing_cases import TimingCases
from kernelwright.evaluator.stages.allclose import check_closeness
from kernelwright.evaluator.stages.counting import chip_profile, count_case
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure, Trial, check_answer, check_directions
from kernelwright.evaluator.stages.verdict import fastest
from kernelwright.ir.graph import Graph

_GATE = "the hidden gate"
_SLOWER_UNSEEN = f"{_GATE} did not hold: slower than MLX at an unseen shape or on unseen data."
_WRONG_UNSEEN = f"{_GATE} did not hold: the program is right on the visible cases only."
_MOST_OWN = 2


class HiddenGate(PipelineStage):
    """A failure says that, and nothing about the cases."""

    name = Stage.HIDDEN
    needs = frozenset({"trial"})
    uses_device = True

    def run(self, context: Context) -> str:
        """Judge all hidden cases; ask for no regression at hidden shapes of what is faster."""
        task, program, verdict = context.task, context.submitted, context.verdict
        suite = context.cases.hidden(task, program)
        pass_quietly(context.trial, suite, _GATE)
        if verdict.is_faster:
            for cases in context.cases.unseen_timing(task, program):
                _keep_pace(context, cases)
        least_gain = context.config.timing.minimum_effect
        if verdict.is_ahead(least_gain) and verdict.measured_us is None:
            _keep_predicted_pace(context, suite)
        return "hidden shapes, seeds and distributions hold"


def _keep_pace(context: Context, cases: TimingCases) -> None:
    """Ask for no measured regression at a hidden shape."""
    track = Track(context.config, context.info, context.tried)

    def screen(trial: Trial, cases: TimingCases) -> Outcome | str:
        return track.screen(trial, cases, proves=False)

    race = race_quietly(context.trial, cases, screen, _GATE).race
    margin = context.config.timing.minimum_effect + race.aa_spread
    if fastest(race.speedups).upper < 1 - margin:
        raise Failure(Status.UNPROVEN, _SLOWER_UNSEEN)


def _keep_predicted_pace(context: Context, suite: Suite) -> None:
    """Ask for no predicted regression at hidden shapes, and on hidden data at the task's own."""
    profile = chip_profile(context)
    for reference in _counted(suite, context.task.graph):
        graph = reference.case.graph
        try:
            prediction = predict_program(count_case(context.trial, reference), profile)
        except Failure as failure:
            raise Failure(Status.UNPROVEN, _WRONG_UNSEEN, lost_worker=failure.lost_worker) from None
        ratio = fastest(speedups_of(prediction, predict_baselines(graph, profile))).ratio
        if ratio < 1 - context.config.timing.minimum_effect:
            raise Failure(Status.UNPROVEN, _SLOWER_UNSEEN)


def _counted(suite: Suite, own: Graph) -> list[Reference]:
    """Return one case of the largest hidden shapes, and some of different data at the own shape."""
    same = [r for r in suite.references if r.case.graph.fingerprint == own.fingerprint]
    return [*same[:_MOST_OWN], *paced(suite, own.fingerprint)]


def race_quietly(
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


def pass_quietly(trial: Trial, suite: Suite, what: str) -> None:
    """Judge cases that nobody may learn about; any failure is one and the same."""
    directions = RoundingDirections()
    try:
        for seed, reference in enumerate(suite.references):
            result = trial.run(reference, seed=seed)
            check_answer(result, reference)
            directions.add(result.outputs, reference.expected_outputs)
            check_closeness(reference.closeness(result.outputs), reference)
        check_directions(directions)
    except Failure as failure:
        raise Failure(
            Status.UNPROVEN,
            f"{what} did not hold: the program is right on the visible cases only.",
            lost_worker=failure.lost_worker,
        ) from None
