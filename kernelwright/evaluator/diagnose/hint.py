"""What commonly makes an answer wrong, said of the kernel that gave it."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.stages.trial import Failure
from kernelwright.metal.kernel import Program
from kernelwright.metal.msl.token import tokenize

_DROPPERS = """
    clamp fmax fmax3 fmin fmin3 max max3 min min3 saturate simd_max simd_min
"""
_DROPS_NAN = frozenset(_DROPPERS.split())
"""Functions that return the other number where one is NaN; Metal Shading Language, 6.5."""


def hinted(failure: Failure, program: Program) -> Failure:
    """Name what may have dropped a NaN that MLX keeps, where that is what is wrong."""
    if failure.status is not Status.WRONG or not failure.mismatches:
        return failure
    expected = failure.mismatches[0].expected
    name = next(_droppers(program), "")
    if expected is None or not math.isnan(expected) or not name:
        return failure
    words = f"{name}() drops a NaN that MLX keeps: ask isnan() first."
    return replace(failure, summary=f"{failure.summary} {words}")


def _droppers(program: Program) -> Iterator[str]:
    for kernel in program.kernels:
        tokens = [t for t in tokenize(kernel.source + kernel.header) if t.is_code]
        for token, behind in pairwise(tokens):
            if token.spelling in _DROPS_NAN and behind.spelling == "(":
                yield token.spelling
