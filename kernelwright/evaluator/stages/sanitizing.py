"""The stage that runs a program under the sanitizer, on the simulator."""

from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.selection import sanitized
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.metal.device.executable import RunResult


class Sanitizing(PipelineStage):
    """Looks for stray accesses, races, divergent barriers and what is never initialised.

    What its build gives is judged with the other runs, by the stage that judges answers.
    """

    name = Stage.SANITIZE
    needs = frozenset({"trial", "suite"})
    gives = frozenset({"simulated", "sanitized"})

    def run(self, context: Context) -> str:
        """Run the task's own shape, telling data at odd ones, and what strays by its indices."""
        context.simulated = context.workers.sanitizing_trial(context.trial)
        chosen, straying = sanitized(context.suite), context.suite.straying
        results: list[tuple[Reference, RunResult]] = []
        for seed, reference in enumerate(chosen):
            results.append((reference, context.simulated.run(reference, seed=seed, sanitize=True)))
        for reference in straying:
            context.simulated.judge_straying(reference)
        context.sanitized = tuple(results)
        count = len(straying)
        more = f"; {count} with indices out of range agree elsewhere" if count else ""
        return f"{len(chosen)} runs without a report{more}"
