"""The stage that judges on cases that nobody has seen."""

from collections.abc import Callable

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.selection import paced
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.oracle.rounded_constant import has_finer_constants
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections
from kernelwright.evaluator.speed.predicted_time import speedups_of
from kernelwright.evaluator.speed.prediction import predict_baselines, predict_program
from kernelwright.evaluator.speed.race_runner import Outcome, Track
from kernelwright.evaluator.speed.timing_cases import TimingCases
from kernelwright.evaluator.stages.allclose import check_closeness
from kernelwright.evaluator.stages.case_runs import run_cases
from kernelwright.evaluator.stages.counting import chip_profile, count_case
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import (
    Failure,
    Trial,
    add_directions,
    check_answer,
    check_directions,
    check_swept,
)
from kernelwright.evaluator.stages.verdict import fastest
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import RunResult

_GATE = "the hidden gate"
_SLOWER_UNSEEN = "slower than MLX at an unseen shape or on unseen data"
_WRONG_UNSEEN = f"{_GATE} did not hold: the program is right on the visible cases only."
_MOST_OWN = 2
_SMALLEST_SHARE = 1 / 8
"""Of the elements of the task's own outputs: much smaller shapes take the time of a launch."""


class HiddenGate(PipelineStage):
    """A failure says that, and nothing about the cases."""

    name = Stage.HIDDEN
    needs = frozenset({"trial", "raced"})
    gives = frozenset({"slower_where"})

    def run(self, context: Context) -> str:
        """Judge all hidden cases; what is faster but not at hidden shapes is right and no more."""
        task, program = context.task, context.submitted
        if context.wants(Stage.CONFIRMATION):
            context.workers.open_ahead()
        suite = context.cases.hidden(task, program)
        pass_quietly(context.trial, suite, _GATE)
        is_slower = _is_slower_unseen(context, suite)
        context.slower_where = _SLOWER_UNSEEN if is_slower else ""
        if is_slower:
            return f"hidden shapes, seeds and distributions hold; {_SLOWER_UNSEEN}"
        return "hidden shapes, seeds and distributions hold"


def _is_slower_unseen(context: Context, suite: Suite) -> bool:
    """Say whether what is faster in the open is slower than MLX where nobody has looked."""
    verdict, least_gain = context.verdict, context.config.timing.minimum_effect
    if context.raced:
        unseen = context.cases.unseen_timing(context.task, context.submitted)
        return any(_is_slower(context, cases) for cases in unseen)
    if verdict.is_ahead(least_gain) and verdict.measured_us is None:
        return _is_predicted_slower(context, suite)
    return False


def _is_slower(context: Context, cases: TimingCases) -> bool:
    """Measure whether there is a regression at a hidden shape."""
    track = Track(context.config, context.info, context.tried)
    race = race_quietly(context.trial, cases, track.compare, _GATE).race
    margin = context.config.timing.minimum_effect + (race.aa_spread or 0.0)
    return fastest(race.speedups).bounds[1] < 1 - margin


def _is_predicted_slower(context: Context, suite: Suite) -> bool:
    """Predict whether there is a regression at hidden shapes, or on hidden data at the own one."""
    profile = chip_profile(context)
    for reference in _counted(suite, context.task.graph):
        graph = reference.case.graph
        try:
            prediction = predict_program(count_case(context.trial, reference), profile)
        except Failure as failure:
            raise Failure(Status.UNPROVEN, _WRONG_UNSEEN, lost_worker=failure.lost_worker) from None
        ratio = fastest(speedups_of(prediction, predict_baselines(graph, profile))).ratio
        if ratio < 1 - context.config.timing.minimum_effect:
            return True
    return False


def _counted(suite: Suite, own: Graph) -> list[Reference]:
    """Return some cases of different data at the own shape, and one of each large hidden shape."""
    least = _SMALLEST_SHARE * sum(type_.size for type_ in own.output_types)
    same = [r for r in suite.references if r.case.graph.fingerprint == own.fingerprint]
    others = [r for r in paced(suite, own.fingerprint) if r.elements >= least]
    return [*same[:_MOST_OWN], *others]


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
    graph = suite.references[0].case.graph
    directions = RoundingDirections(has_finer_constants(trial.program, graph))

    def judge(seed: int, reference: Reference, result: RunResult) -> None:
        check_answer(result, reference)
        add_directions(directions, reference, result.outputs)
        check_closeness(reference.closeness(result.outputs), reference)

    try:
        trial.compile_ahead([reference.case.graph for reference in suite.references])
        run_cases(trial, suite.references, judge)
        for rows in suite.swept:
            check_swept(trial, rows)
        check_directions(directions)
    except Failure as failure:
        raise Failure(
            Status.UNPROVEN,
            f"{what} did not hold: the program is right on the visible cases only.",
            lost_worker=failure.lost_worker,
        ) from None
