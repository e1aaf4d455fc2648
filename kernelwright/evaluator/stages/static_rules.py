"""The first stage: everything that needs no compiler."""

from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.evaluator.static.launch import (
    beyond_mlx,
    bytes_needed,
    check_launch,
    fit,
)
from kernelwright.evaluator.static.normal_form import with_texts
from kernelwright.evaluator.static.preprocess import Expanded
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.kernel import Program


class StaticRules(PipelineStage):
    """Refuses what does not fit the task, breaks a rule of the text or cannot be launched."""

    name = Stage.STATIC
    gives = frozenset({"program"})

    def run(self, context: Context) -> str:
        """Give the program in normal form."""
        graph, config, submitted = context.task.graph, context.config, context.submitted
        try:
            bound = fit(submitted, graph)
        except InputError as e:
            raise Failure(Status.MALFORMED, str(e)) from e
        if excess := beyond_mlx(bound):
            raise Failure(Status.MALFORMED, excess)
        context.program = _in_normal_form(context)
        if (needed := bytes_needed(bound)) > config.memory_bytes:
            summary = (
                f"its arrays take {needed} bytes, {config.memory_bytes} are allowed; use fewer."
            )
            raise Failure(Status.OUT_OF_MEMORY, summary)
        if impossible := check_launch(fit(context.program, graph), context.info):
            summary = impossible[0].message
            raise Failure(Status.LAUNCH_ERROR, summary, diagnostics=impossible)
        return ""


def _in_normal_form(context: Context) -> Program:
    """Have a worker read the texts, which may be made to take long."""
    submitted = context.submitted
    header = context.workers.check_text(submitted).header
    found, texts = header.get("breaches"), header.get("texts")
    if isinstance(found, list) and found:
        breaches = tuple(Diagnostic.model_validate(d) for d in found)
        summary = f"{breaches[0].file}:{breaches[0].line}: {breaches[0].message}"
        raise Failure(Status.FORBIDDEN, summary, diagnostics=breaches)
    if not isinstance(texts, list) or len(texts) != len(submitted.kernels):
        raise DeviceError("a worker that has run no candidate gave a damaged answer.")
    return with_texts(submitted, tuple(Expanded(str(h), str(s)) for h, s in texts))
