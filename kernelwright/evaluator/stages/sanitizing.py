"""The stage that runs a program under the sanitizer, on the simulator."""

from collections.abc import Sequence

from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage


class Sanitizing(PipelineStage):
    """Looks for stray accesses, races, divergent barriers and what is never initialised."""

    name = Stage.SANITIZE
    needs = frozenset({"trial", "suite"})
    gives = frozenset({"simulated"})

    def prepare(self, context: Context) -> None:
        """Give the simulator's worker."""
        context.simulated = context.workers.sanitizing_trial(context.trial)

    def run(self, context: Context) -> str:
        """Run the task's own shape and the oddest other one, and what strays by its indices."""
        chosen, straying = _chosen(context.suite), context.suite.straying
        for seed, reference in enumerate(chosen):
            context.simulated.run(reference, seed=seed, sanitize=True)
        for reference in straying:
            context.simulated.judge_straying(reference)
        count = len(straying)
        more = f"; {count} with indices out of range agree elsewhere" if count else ""
        return f"{len(chosen)} runs without a report{more}"


def _chosen(suite: Suite) -> Sequence[Reference]:
    own = suite.references[0]
    others = [r for r in suite.references if r.case.graph is not own.case.graph]
    return [own, *others[:1]]
