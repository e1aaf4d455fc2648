"""The last stage: everything once more in a fresh process, on fresh seeds."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.speed.race_runner import Outcome, Track
from kernelwright.evaluator.stages.hidden_gate import pass_quietly, race_quietly
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.evaluator.stages.verdict import Verdict, fastest

_WHAT = "the confirmation"


class Confirmation(PipelineStage):
    """Repeats cases in reversed order, and the race with the baseline first; promotes."""

    name = Stage.CONFIRMATION
    needs = frozenset({"program", "raced", "slower_where"})

    def run(self, context: Context) -> str:
        """Promote what is faster than the fastest baseline, when all of it holds once more.

        Beside the hidden gate it begins to race before it is known what is slower unseen.
        """
        fresh = context.cases.hidden(context.task, context.submitted, "confirmation")
        trial = context.workers.trial_in_a_new_process(context.program)
        again = Suite(tuple(reversed(fresh.references)), swept=fresh.swept)
        pass_quietly(trial, again, _WHAT)
        is_known_slower = context.facts.knows("slower_where") and bool(context.slower_where)
        outcome = _raced_again(context, trial) if context.raced and not is_known_slower else None
        slower_where = context.slower_where
        if outcome is not None and not slower_where:
            _publish(context.verdict, outcome)
        _promote(context, slower_where)
        return "a fresh process on fresh seeds agrees"


def _raced_again(context: Context, trial: Trial) -> Outcome | Failure:
    """Race once more; what fails does so in vain where the program is slower unseen."""
    track = Track(context.config, context.info, context.tried)
    cases = context.cases.confirming_timing(context.task)
    context.workers.lend_baselines(context.task.graph, trial)
    try:
        return race_quietly(trial, cases, track.confirm, _WHAT)
    except Failure as failure:
        return failure


def _publish(verdict: Verdict, outcome: Outcome | Failure) -> None:
    if isinstance(outcome, Failure):
        raise outcome
    verdict.publish(outcome.race, outcome.bytes_per_s)
    if not outcome.race.is_faster:
        summary = f"{_WHAT} did not hold: not faster in a fresh process."
        raise Failure(Status.UNPROVEN, summary)


def _promote(context: Context, slower_where: str) -> None:
    """Promote what is faster: races say so where time is measured, predictions elsewhere."""
    verdict, least_gain = context.verdict, context.config.timing.minimum_effect
    if not verdict.speedups:
        return
    if slower_where:
        verdict.summary += f"; {slower_where}"
        return
    gain, is_faster = fastest(verdict.speedups), context.raced
    if verdict.is_ahead(least_gain) if is_faster is None else is_faster:
        verdict.status = Status.PROMOTED
        verdict.summary += f"; {gain.kind} {gain.ratio:.3g}x of {gain.baseline}, confirmed"
    else:
        verdict.summary += f"; not faster than {gain.baseline} ({gain.kind})"
