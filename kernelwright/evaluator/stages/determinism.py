"""The stage that repeats a case under other thread orders."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.oracle.accuracy import same_bytes
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.metal.device.base import RunResult


class Determinism(PipelineStage):
    """Repeats the largest case under other thread orders; every bit must stay as it is right."""

    name = Stage.DETERMINISM
    needs = frozenset({"trial", "suite", "right"})
    uses_device = True

    def run(self, context: Context) -> str:
        """Compare with the correct run, which had an order of its own: one of the runs."""
        suite, runs = context.suite, context.config.determinism_runs
        reference = suite.references[suite.largest]
        others = [seed for seed in range(runs) if seed != suite.largest]
        for seed in others[: runs - 1]:
            _compare(context.right, context.trial.run(reference, seed=seed), reference)
        return f"{runs} runs agree"


def _compare(right: RunResult, again: RunResult, reference: Reference) -> None:
    for place, wanted in enumerate(reference.expected_outputs):
        a, b = right.outputs[place], again.outputs[place]
        if wanted.may_vary is not None:
            a, b = a[~wanted.may_vary], b[~wanted.may_vary]
        if not same_bytes(a, b):
            raise Failure(
                Status.NONDETERMINISTIC,
                f"output {place} changes from run to run ({reference.case.name}); "
                "look for a missing barrier or an order-dependent sum.",
                reference=reference,
            )
