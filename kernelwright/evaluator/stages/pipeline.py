"""The stages in their order, and how a program is put through them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kernelwright.evaluator.stages.allclose import Allclose
from kernelwright.evaluator.stages.compilation import Compilation
from kernelwright.evaluator.stages.confirmation import Confirmation
from kernelwright.evaluator.stages.correctness import Correctness
from kernelwright.evaluator.stages.counting import Counting
from kernelwright.evaluator.stages.coverage import Coverage
from kernelwright.evaluator.stages.determinism import Determinism
from kernelwright.evaluator.stages.hidden_gate import HiddenGate
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


def run_pipeline(context: Context, pipeline: Sequence[PipelineStage] = PIPELINE) -> None:
    """Put a program through the stages that its config asks for.

    Neighbours that use the device have it to themselves together, up to one that pauses; what else
    they need is done before.

    Raises:
        Failure: a stage refused the program.
        DeviceError: the machine failed, so that there is no verdict.
    """
    wanted = [stage for stage in pipeline if context.wants(stage.name)]
    groups = _groups(wanted)
    last = max((i for i, group in enumerate(groups) if group[0].uses_device), default=0)
    for number, group in enumerate(groups):
        if not group[0].uses_device:
            for stage in group:
                stage.prepare(context)
                _run(context, stage)
            continue
        for stage in group:
            stage.prepare(context)
        with _device_held(context, is_last=number == last):
            for stage in group:
                _run(context, stage)


def _groups(stages: Sequence[PipelineStage]) -> list[list[PipelineStage]]:
    groups: list[list[PipelineStage]] = []
    for stage in stages:
        if stage.pauses or not groups or groups[-1][0].uses_device != stage.uses_device:
            groups.append([])
        groups[-1].append(stage)
    return groups


def _run(context: Context, stage: PipelineStage) -> None:
    with context.verdict.stage(stage.name) as words:
        words.append(stage.run(context))


@contextmanager
def _device_held(context: Context, *, is_last: bool) -> Iterator[None]:
    """Have the device to ourselves, and leave nothing there at the end, however it comes."""
    with context.workers.on_device():
        try:
            yield
        except BaseException:
            context.workers.free_device()
            raise
        if is_last:
            context.workers.free_device()
