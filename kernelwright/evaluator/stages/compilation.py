"""The stage that compiles a program, and finds the cases that it will be judged on."""

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.parallel import begin
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure


class Compilation(PipelineStage):
    """Compiles for the task's own shapes, and on a GPU for all others while it is not needed."""

    name = Stage.COMPILE
    needs = frozenset({"program"})
    gives = frozenset({"trial", "suite"})

    def run(self, context: Context) -> str:
        """Refuse also a program that no case could tell from a trivial one."""
        context.trial = context.workers.trial(context.program)
        if context.wants(Stage.TIMING) and context.info.measures_time:
            context.workers.compile_baselines(context.task.graph)
            context.cases.draw_timing_ahead(context.task)

        def draw() -> Suite:
            return context.cases.visible(context.task, context.submitted)

        drawn = begin(draw)
        context.trial.compile(context.task.graph)
        # Threads that draw for others may not have come to it.
        context.suite = draw() if drawn.cancel() else drawn.result()
        if context.info.measures_time:
            context.trial.compile_ahead([r.case.graph for r in context.suite.references])
            if context.wants(Stage.TIMING):
                context.cases.work_out_timing_ahead(context.task)
        if not context.suite.is_proof:
            summary = f"no program of this task can be judged: {context.suite.why_no_proof}."
            raise Failure(Status.UNPROVEN, summary)
        return ""
