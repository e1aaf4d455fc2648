"""Whether a program may hold a task's constants as the user wrote them, before MLX rounds them."""

import numpy as np

from kernelwright.evaluator.inputs.literals import literals_of
from kernelwright.evaluator.oracle.float_format import rounded_to
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

_NARROW = (Dtype.FLOAT16, Dtype.BFLOAT16)
_MOST_DIGITS = 6


def has_finer_constants(program: Program, graph: Graph) -> bool:
    """Say whether a text has numbers that a format does not, and the task constants it rounded.

    0.01 is 0.010009765625 in bfloat16: a kernel that multiplies by `0.01f` does what was written.
    """
    formats = {
        constant.type.dtype
        for constant in graph.constant_of.values()
        if constant.type.dtype in _NARROW and constant.type.size == 1
        if _is_rounded(float(np.asarray(constant.array).reshape(-1)[0]), constant.type.dtype)
    }
    written = [n for n in literals_of(program) if not n.is_integer()]
    return any(_rounded(n, dtype) != n for dtype in formats for n in written)


def _is_rounded(value: float, dtype: Dtype) -> bool:
    """Say whether the shortest decimal that a format rounds to a number is another one."""
    texts = (f"{value:.{digits}g}" for digits in range(1, _MOST_DIGITS))
    short = next((float(t) for t in texts if _rounded(float(t), dtype) == value), value)
    return np.isfinite(value) and short != value


def _rounded(value: float, dtype: Dtype) -> float:
    return float(rounded_to(np.array([value]), dtype).astype(np.float64)[0])
