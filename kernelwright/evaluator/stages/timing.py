"""The stage that times a program beside MLX's best, or compares predictions with predictions."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.speed.predicted_time import PredictedTime, speedups_of
from kernelwright.evaluator.speed.prediction import predict_baselines
from kernelwright.evaluator.speed.race_runner import Track
from kernelwright.evaluator.stages.counting import chip_profile
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.evaluator.stages.verdict import fastest
from kernelwright.metal.perf import caveat_of


class Timing(PipelineStage):
    """Says how much faster than the fastest baseline a program is."""

    name = Stage.TIMING
    needs = frozenset({"trial"})
    gives = frozenset({"raced"})

    def run(self, context: Context) -> str:
        """Measure where the device measures time, else predict."""
        context.verdict.summary_untimed = context.verdict.summary
        words = _measure(context) if context.info.measures_time else _predict(context)
        context.raced = context.verdict.is_faster
        return words


def _predict(context: Context) -> str:
    verdict, profile = context.verdict, chip_profile(context)
    if verdict.predicted_us is None:
        return "this device neither measures nor counts"
    prediction = PredictedTime(verdict.predicted_us, verdict.bound)
    verdict.speedups = speedups_of(prediction, predict_baselines(context.task.graph, profile))
    caveat = caveat_of([profile.name])
    return (
        f"predicted for {profile.name}, not measured{', ' if caveat else ''}{caveat}: "
        f"{prediction.microseconds:.3g} us, "
        f"{fastest(verdict.speedups).ratio:.3g}x the fastest baseline's prediction"
    )


def _measure(context: Context) -> str:
    verdict = context.verdict
    track = Track(context.config, context.info, context.tried)
    cases = context.cases.timing(context.task)
    if context.wants(Stage.CONFIRMATION) or context.cases.draws_ahead:
        context.cases.draw_hidden_ahead(context.task, context.submitted)
    context.workers.lend_baselines(context.task.graph, context.trial)
    race = track.prove if context.wants(Stage.CONFIRMATION) else track.screen
    outcome = race(context.trial, cases)
    if isinstance(outcome, str):
        verdict.is_faster = False
        return f"not timed, for MLX itself cannot compute this here: {outcome}"
    found = outcome.race
    verdict.keep_race(found, outcome.bytes_per_s)
    if found.status is not Status.CORRECT:
        raise Failure(found.status, found.summary)
    verdict.is_faster = found.is_faster
    verdict.summary += f"; {found.summary}"
    return found.summary
