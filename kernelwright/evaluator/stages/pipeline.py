"""The stages in their order, and how a program is put through them."""

from collections.abc import Sequence

from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.stages.allclose import Allclose
from kernelwright.evaluator.stages.compilation import Compilation
from kernelwright.evaluator.stages.confirmation import Confirmation
from kernelwright.evaluator.stages.correctness import Correctness
from kernelwright.evaluator.stages.counting import Counting
from kernelwright.evaluator.stages.coverage import Coverage
from kernelwright.evaluator.stages.determinism import Determinism
from kernelwright.evaluator.stages.hidden_gate import HiddenGate
from kernelwright.evaluator.stages.lanes import run_side_by_side
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.sanitizing import Sanitizing
from kernelwright.evaluator.stages.static_rules import StaticRules
from kernelwright.evaluator.stages.timing import Timing

PIPELINE: tuple[PipelineStage, ...] = (
    StaticRules(),
    Compilation(),
    Sanitizing(),
    Correctness(),
    Allclose(),
    Determinism(),
    Coverage(),
    Counting(),
    Timing(),
    HiddenGate(),
    Confirmation(),
)
"""Every stage of a verdict, in order; it is the order of `Stage` too."""
FROM_TIMING = PIPELINE[PIPELINE.index(next(s for s in PIPELINE if s.name is Stage.TIMING)) :]
"""What is left for a program that the same evaluator has checked already."""


def run_pipeline(context: Context, pipeline: Sequence[PipelineStage] = PIPELINE) -> None:
    """Put a program through the stages that its config asks for; leave nothing on the device.

    Raises:
        Failure: a stage refused the program.
        DeviceError: the machine failed, so that there is no verdict.
    """
    wanted = [stage for stage in pipeline if context.wants(stage.name)]
    first = [stage for stage in wanted if stage.name is Stage.STATIC]
    try:
        # The text is read before anything of it runs anywhere.
        for stage in first if context.workers.is_side_by_side else wanted:
            with context.verdict.stage(stage.name) as words:
                words.append(stage.run(context))
        if context.workers.is_side_by_side:
            run_side_by_side(context, wanted[len(first) :])
    finally:
        context.workers.free_device()
