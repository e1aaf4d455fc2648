"""The stage that holds `mx.allclose` beside MLX's own answer, in every visible case."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.oracle.mlx_answer import Closeness
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import BEYOND_THE_SIMULATOR, Failure
from kernelwright.metal.kernel import Program

_FAST = re.compile(r"\bfast\b")
_MOST_AT_WORST = 8
"""Cases of different kinds that run with fast functions at their worst."""


class Allclose(PipelineStage):
    """Judges what `mx.allclose` said of each correct run's outputs.

    It also has to hold where `fast::` functions err by all that Apple documents for them: what a
    GPU does lies between that and the little that they are off otherwise.
    """

    name = Stage.ALLCLOSE
    needs = frozenset({"program", "simulated", "suite", "closeness"})

    def run(self, context: Context) -> str:
        """Say how often the float64 oracle took the place of MLX's answer."""
        found = context.closeness
        for reference, one in zip(context.suite.references, found, strict=True):
            check_closeness(one, reference)
        words = _words(found)
        if context.config.fast_error == "worst" and _calls_fast_functions(context.program):
            words += f"; {_at_worst(context)}"
        return words


def _calls_fast_functions(program: Program) -> bool:
    return any(
        kernel.math_mode == "fast" or _FAST.search(f"{kernel.header}\n{kernel.source}")
        for kernel in program.kernels
    )


def _at_worst(context: Context) -> str:
    """Judge cases of each kind at the task's own shape with fast functions at their worst."""
    own = context.suite.references[0].case.graph.fingerprint
    kinds = {
        reference.case.distribution: reference
        for reference in reversed(context.suite.references)
        if reference.case.graph.fingerprint == own
    }
    chosen = list(kinds.values())[-_MOST_AT_WORST:]
    try:
        for reference in chosen:
            result = context.simulated.run(reference, fast_error="worst")
            check_closeness(reference.closeness(result.outputs), reference)
    except Failure as failure:
        if context.info.measures_time and failure.status in BEYOND_THE_SIMULATOR:
            return f"fast functions were not tried at their worst: {failure.summary}"
        words = f"with fast:: functions as far off as Apple documents, {failure.summary}"
        raise replace(failure, summary=f"{words} Call metal::precise:: there.") from None
    return f"{len(chosen)} hold with fast:: functions as far off as Apple documents"


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
