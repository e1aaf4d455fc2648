"""The stage that repeats a case under other thread orders."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.selection import repeated
from kernelwright.evaluator.oracle.accuracy import same_but_for_nan
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.metal.device.executable import RunResult


class Determinism(PipelineStage):
    """Repeats cases under other thread orders; every bit must stay as it is right."""

    name = Stage.DETERMINISM
    needs = frozenset({"trial", "suite", "right"})

    def run(self, context: Context) -> str:
        """Compare with the correct runs, which had orders of their own."""
        suite, runs = context.suite, context.config.determinism_runs
        repeats = repeated(suite, runs)
        for repeat in repeats:
            reference = suite.references[repeat.place]
            # The correct run was in the order of its place.
            seeds = [seed for seed in range(runs) if seed != repeat.place]
            for seed in seeds[: repeat.runs - 1]:
                again = context.trial.run(reference, seed=seed)
                _compare(context.right[repeat.place], again, reference)
        return f"{runs} runs agree, and two of {len(repeats) - 1} other cases"


def _compare(right: RunResult, again: RunResult, reference: Reference) -> None:
    for place, wanted in enumerate(reference.expected_outputs):
        a, b = right.outputs[place], again.outputs[place]
        if wanted.may_vary is not None:
            a, b = a[~wanted.may_vary], b[~wanted.may_vary]
        if a.shape != b.shape or a.dtype != b.dtype or not same_but_for_nan(a, b):
            raise Failure(
                Status.NONDETERMINISTIC,
                f"output {place} changes from run to run ({reference.case.name}); "
                "look for a missing barrier or an order-dependent sum.",
                reference=reference,
            )
