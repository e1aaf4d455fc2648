"""The stage that holds `mx.allclose` beside MLX's own answer, in every visible case."""

from collections.abc import Sequence

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.oracle.mlx_answer import Closeness
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import Failure


class Allclose(PipelineStage):
    """Judges what `mx.allclose` said of each correct run's outputs."""

    name = Stage.ALLCLOSE
    needs = frozenset({"suite", "closeness"})
    uses_device = True

    def run(self, context: Context) -> str:
        """Say how often the float64 oracle took the place of MLX's answer."""
        found = context.closeness
        for reference, one in zip(context.suite.references, found, strict=True):
            check_closeness(one, reference)
        return _words(found)


def check_closeness(found: Closeness, reference: Reference) -> None:
    """Refuse outputs that are not close."""
    if found.failed is None:
        return
    tolerance = reference.expected_outputs[found.failed].tolerance
    whose = "MLX's own" if found.is_beside_mlx else "the float64 oracle's"
    raise Failure(
        Status.WRONG,
        f"output {found.failed} fails mx.allclose beside {whose} answer at rtol "
        f"{tolerance.relative:g} and atol {tolerance.absolute:g} ({reference.case.name}).",
        reference=reference,
    )


def _words(found: Sequence[Closeness]) -> str:
    beside_mlx = sum(one.is_beside_mlx for one in found)
    words = f"holds beside MLX's own answer in {beside_mlx} cases"
    if replaced := len(found) - beside_mlx:
        words += f"; in {replaced} the rounded oracle took its place, which MLX's is not close to"
    return words
