"""Whether a program may hold a task's constants as the user wrote them, before MLX rounds them."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations

import numpy as np

from kernelwright.evaluator.inputs.literals import literals_of
from kernelwright.evaluator.oracle.float_format import half_spacing, rounded_to
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

_NARROW = (Dtype.FLOAT16, Dtype.BFLOAT16)
_MOST_DIGITS = 6
_MOST_CONSTANTS = 8
_SECOND_ORDER = 1.05
_SCALES = (1.0, math.log2(math.e))
"""Beside powers of two: exponentials are often taken of base two."""


def has_finer_constants(program: Program, graph: Graph) -> bool:
    """Say whether a text has a number that comes from the task's constants, before MLX rounds them.

    0.01 is 0.010009765625 in bfloat16: a kernel that multiplies by `0.01f` does what was written.
    So does one that multiplies by its reciprocal, or by what two constants make of each other.
    """
    written = [float(np.float32(n)) for n in literals_of(program) if not n.is_integer()]
    return any(
        _comes_from(number, constants, dtype)
        for dtype in _NARROW
        if (constants := _rounded_constants(graph, dtype))
        for number in written
        if number and _rounded(number, dtype) != number
    )


def _rounded_constants(graph: Graph, dtype: Dtype) -> list[float]:
    """Return the sizes of a graph's constants of a format that are not what somebody wrote."""
    values = (
        float(np.asarray(constant.array).reshape(-1)[0])
        for constant in graph.constant_of.values()
        if constant.type.dtype is dtype and constant.type.size == 1
    )
    return list(dict.fromkeys(abs(v) for v in values if _is_rounded(v, dtype)))[:_MOST_CONSTANTS]


def _comes_from(number: float, constants: Sequence[float], dtype: Dtype) -> bool:
    """Say whether a number may be made of constants before each was rounded to a format."""
    for made, error in _made_of(constants, dtype):
        for scale in _SCALES:
            power = math.log2(abs(number) / (made * scale))
            if abs(2.0 ** (power - round(power)) - 1) <= error:
                return True
    return False


def _made_of(constants: Sequence[float], dtype: Dtype) -> Iterator[tuple[float, float]]:
    """Yield constants, their reciprocals, products and quotients, each with its relative error."""
    lost = half_spacing(np.array(constants), dtype) / constants
    known = list(zip(constants, map(float, lost), strict=True))
    for constant, error in known:
        yield constant, error
        yield 1 / constant, error / (1 - error)
    for (one, first), (other, second) in combinations_with_replacement(known, 2):
        yield one * other, _SECOND_ORDER * (first + second)
    for (one, first), (other, second) in permutations(known, 2):
        yield one / other, _SECOND_ORDER * (first + second)


def _is_rounded(value: float, dtype: Dtype) -> bool:
    """Say whether the shortest decimal that a format rounds to a number is another one."""
    texts = (f"{value:.{digits}g}" for digits in range(1, _MOST_DIGITS))
    short = next((float(t) for t in texts if _rounded(float(t), dtype) == value), value)
    return np.isfinite(value) and short != value


def _rounded(value: float, dtype: Dtype) -> float:
    return float(rounded_to(np.array([value]), dtype).astype(np.float64)[0])
