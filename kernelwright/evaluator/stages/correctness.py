"""The stage that compares every output of every visible case with the oracle."""

from collections.abc import Mapping
from dataclasses import replace

from kernelwright.evaluator.diagnose.hint import hinted
from kernelwright.evaluator.diagnose.shrink import shrink
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.selection import repeated
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.mlx_answer import Closeness
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.oracle.rounded_constant import has_finer_constants
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections
from kernelwright.evaluator.stages.case_runs import run_cases
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import (
    Failure,
    add_directions,
    check_answer,
    check_directions,
    check_swept,
    explain,
)
from kernelwright.metal.device.executable import RunResult

_FEW_PROVE = 4
"""Fewer than one in so many cases is said with the verdict."""


class Correctness(PipelineStage):
    """Runs all visible cases; says of a wrong one where, and at which smallest shape."""

    name = Stage.CORRECTNESS
    needs = frozenset({"program", "trial", "simulated", "suite", "sanitized"})
    gives = frozenset({"right", "closeness"})

    def run(self, context: Context) -> str:
        """Give the results of those cases that run again."""
        directions = RoundingDirections(has_finer_constants(context.program, context.task.graph))
        try:
            context.right = self._kept(context, directions)
        except Failure as failure:
            # A report of the sanitizer comes first; what is later leaves the simulator alone.
            _ = context.sanitized
            context.end_later_stages(self.name)
            secret = context.cases.secret("visible")
            smallest = shrink(context.trial, context.task, failure, secret)
            found = explain(smallest, context.simulated)
            raise hinted(found, context.program) from None
        check_directions(directions)
        for reference, result in context.sanitized:
            judge_build(result, reference, "under the sanitizer")
        if not context.info.measures_time:
            # What a GPU is raced on comes first, and draws them then.
            _draw_ahead(context)
        cases = context.verdict.cases
        context.verdict.summary = f"correct in {cases} cases"
        if _FEW_PROVE * context.suite.proving < cases:
            proving = context.suite.proving
            context.verdict.summary += f", only {proving} of which refuse every trivial answer"
        return _words(context.suite, cases)

    def _kept(self, context: Context, directions: RoundingDirections) -> Mapping[int, RunResult]:
        suite, verdict, found = context.suite, context.verdict, list[Closeness]()
        places = {repeat.place for repeat in repeated(suite, context.config.determinism_runs)}
        kept = {}

        def judge(seed: int, reference: Reference, result: RunResult) -> None:
            verdict.keep_worst(reference, check_answer(result, reference))
            add_directions(directions, reference, result.outputs)
            verdict.cases += 1
            found.append(reference.closeness(result.outputs))
            if seed in places:
                kept[seed] = result

        run_cases(context.trial, suite.references, judge)
        for rows in suite.swept:
            check_swept(context.trial, rows)
        context.closeness = tuple(found)
        return kept


def _draw_ahead(context: Context) -> None:
    verdict = context.verdict
    context.cases.draw_later_ahead(
        context.task, context.submitted, context.suite, lambda: verdict.failure is not None
    )


def judge_build(result: RunResult, reference: Reference, where: str) -> None:
    """Judge what another build than the plain one gave, and say which one it was.

    Raises:
        Failure: its outputs are wrong.
    """
    try:
        check_answer(result, reference)
    except Failure as failure:
        words = (
            f"right where it runs plainly, and wrong {where}, so that it hangs on what C++ leaves "
            f"open, as a signed integer's overflow, or on how it is compiled: {failure.summary}"
        )
        raise replace(failure, summary=words) from None


def _words(suite: Suite, cases: int) -> str:
    words = f"{cases} cases, {suite.proving} of them refuse every trivial answer; {suite.judged}"
    if parts := sum(len(rows.parts) for rows in suite.swept):
        words += f"; {parts} more launches, each with the deciding elements elsewhere"
    if suite.masked:
        words += f"; {suite.masked} judged in part, where no rounding decides"
    if suite.dropped:
        words += f"; {len(suite.dropped)} dropped, {suite.why_dropped}"
    if suite.unseen_inputs:
        words += f"; no case shows whether inputs {suite.unseen_inputs} are read"
    return words
