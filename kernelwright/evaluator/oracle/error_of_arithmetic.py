"""What the float32 arithmetic of an elementwise op loses before its result is rounded."""

from collections.abc import Sequence

import numpy as np

from kernelwright.evaluator.oracle.error_of_elements import distance_of
from kernelwright.evaluator.oracle.float_format import (
    FLOAT32,
    UNIT,
    Reals,
    half_spacing,
    is_inexact,
    only_where,
    rounded_to,
)
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

_CORRECT = 0.5
"""Ulps of what IEEE arithmetic rounds correctly; a half result after a rounding to float32."""


def error_of_arithmetic(
    op: Op, call: Call, values: Sequence[Array], made: Array, dtype: Dtype
) -> Reals | None:
    """Bound what the op's own arithmetic loses before its result is rounded to its dtype."""
    ideal = made
    if op.name == "floor_divide":
        return _of_whole_quotient(values, made, dtype)
    ulps = op.behaviour.ulps
    if ulps == _CORRECT:
        if dtype is Dtype.FLOAT32:
            return None
        inexact = is_inexact(ideal, Dtype.FLOAT32)
        if not inexact.any():
            return None
        return only_where(inexact, half_spacing(ideal, Dtype.FLOAT32))
    if ulps is None:
        return None
    lost = 2 * ulps * half_spacing(ideal, Dtype.FLOAT32)
    if op.behaviour.scales_argument or op.name == "power":
        lost += _of_scaled_argument(op, call, values, ideal)
    if op.name == "erf":
        # A polynomial for all arguments: Abramowitz and Stegun 7.1.26 is off by 1.5e-7 before it
        # is rounded, MLX's own on a CPU by 4.4e-7.
        lost += 8 * UNIT
    settled = only_where(ideal != 0, lost)
    floor = FLOAT32.least_normal
    small = (np.abs(ideal) < floor) & (ideal != 0)
    return np.where(small, np.maximum(settled, floor), settled) if small.any() else settled


def _of_whole_quotient(values: Sequence[Array], made: Array, dtype: Dtype) -> Reals | None:
    """Allow that a quotient just below a whole number is rounded to it first, as MLX's own is."""
    quotient = np.asarray(values[0] / values[1])
    rounded = (rounded_to(quotient, to).astype(np.float64) for to in {Dtype.FLOAT32, dtype})
    lost = np.max([distance_of(np.floor(r), made) for r in rounded], axis=0)
    # An overflow is one of the result's own rounding, which is not counted here.
    lost = only_where(np.isfinite(lost), lost)
    return lost if lost.any() else None


def _of_scaled_argument(op: Op, call: Call, values: Sequence[Array], made: Reals) -> Reals:
    if op.name == "power":
        exponent = np.abs(np.log(np.abs(made)))
        moved = 2 * UNIT * exponent * np.abs(made)
    elif op.name == "logaddexp":
        moved = 2 * UNIT * np.abs(values[0] - values[1])
        moved = np.minimum(moved, 2 * UNIT)
        # The logarithm is rounded by itself, and may cancel the larger operand.
        moved = moved + 8 * UNIT * np.abs(made - np.maximum(values[0], values[1]))
    else:
        assert op.meaning is not None
        x = values[0]
        moved = np.abs(op.meaning(call, x * (1 + 2 * UNIT)) - made)
    return only_where(np.isfinite(moved), moved)
