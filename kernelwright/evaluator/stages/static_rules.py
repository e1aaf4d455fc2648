"""The first stage: everything that needs no compiler."""

from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.evaluator.static.launch import bytes_needed, check_launch, fit
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.static.rules import check_program


class StaticRules(PipelineStage):
    """Refuses what does not fit the task, breaks a rule of the text or cannot be launched."""

    name = Stage.STATIC
    gives = frozenset({"program"})

    def run(self, context: Context) -> str:
        """Give the program in normal form."""
        graph, config, submitted = context.task.graph, context.config, context.submitted
        try:
            fit(submitted, graph)
        except InputError as e:
            raise Failure(Status.MALFORMED, str(e)) from e
        if breaches := check_program(submitted):
            first = breaches[0]
            summary = f"{first.file}:{first.line}: {first.message}"
            raise Failure(Status.FORBIDDEN, summary, diagnostics=breaches)
        program = normalise(submitted)
        bound = fit(program, graph)
        if (needed := bytes_needed(bound)) > config.memory_bytes:
            summary = (
                f"its arrays take {needed} bytes, {config.memory_bytes} are allowed; use fewer."
            )
            raise Failure(Status.OUT_OF_MEMORY, summary)
        if impossible := check_launch(bound, context.info):
            summary = impossible[0].message
            raise Failure(Status.LAUNCH_ERROR, summary, diagnostics=impossible)
        context.program = program
        return ""
