"""The last stage: everything once more in a fresh process, on fresh seeds."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.speed.race_runner import Track
from kernelwright.evaluator.stages.hidden_gate import pass_quietly, race_quietly
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.evaluator.stages.verdict import Verdict, fastest

_WHAT = "the confirmation"


class Confirmation(PipelineStage):
    """Repeats cases in reversed order, and the race with the baseline first; promotes."""

    name = Stage.CONFIRMATION
    needs = frozenset({"program"})

    def run(self, context: Context) -> str:
        """Promote what is faster than the fastest baseline, when all of it holds once more."""
        fresh = context.cases.hidden(context.task, context.submitted, "confirmation")
        trial = context.workers.trial_in_a_new_process(context.program)
        again = Suite(tuple(reversed(fresh.references)), swept=fresh.swept)
        pass_quietly(trial, again, _WHAT)
        if context.verdict.is_faster:
            _win_again(context, trial)
        _promote(context.verdict, context.config.timing.minimum_effect)
        return "a fresh process on fresh seeds agrees"


def _win_again(context: Context, trial: Trial) -> None:
    track = Track(context.config, context.info, context.tried)
    cases = context.cases.confirming_timing(context.task)
    context.workers.lend_baselines(context.task.graph, trial)
    outcome = race_quietly(trial, cases, track.confirm, _WHAT)
    context.verdict.publish(outcome.race, outcome.bytes_per_s)
    if not outcome.race.is_faster:
        summary = f"{_WHAT} did not hold: not faster in a fresh process."
        raise Failure(Status.UNPROVEN, summary)


def _promote(verdict: Verdict, least_gain: float) -> None:
    """Promote what is faster: races say so where time is measured, predictions elsewhere."""
    if not verdict.speedups:
        return
    if verdict.slower_where:
        verdict.summary += f"; {verdict.slower_where}"
        return
    gain, is_faster = fastest(verdict.speedups), verdict.is_faster
    if verdict.is_ahead(least_gain) if is_faster is None else is_faster:
        verdict.status = Status.PROMOTED
        verdict.summary += f"; {gain.kind} {gain.ratio:.3g}x of {gain.baseline}, confirmed"
    else:
        verdict.summary += f"; not faster than {gain.baseline} ({gain.kind})"
