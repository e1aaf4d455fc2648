"""Ops that go further inside an interval than at its ends: waves, poles, jumps and equalities."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.float_format import Reals
from kernelwright.ir.ops import Op
from kernelwright.ir.ops.op import Array

Flags = NDArray[np.bool_]

_PEAK = {"cos": 0.0, "sin": np.pi / 2}
"""Where a wave is 1; it is -1 half a turn later."""


def farthest_inside(
    op: Op, values: Sequence[Array], errors: Sequence[Reals | None], made: Array
) -> Reals | None:
    """Return how far a result may be off within its operands' errors; NaN if without a limit.

    None for ops whose extremes lie at the ends of what their operands may be.

    Args:
        op: an elementwise op.
        values: its operands, as the ideal evaluation has them.
        errors: what each operand may be off; None where it is exact.
        made: the op's ideal result.
    """
    spans = [np.zeros(v.shape) if e is None else e for v, e in zip(values, errors, strict=True)]
    if any(v.dtype.kind not in "fiu" for v in values):
        return None
    reals = [v.astype(np.float64) for v in values]
    if op.name in _PEAK:
        return _of_wave(reals[0], spans[0], made, _PEAK[op.name])
    if op.name == "tan":
        return _if(_holds_turn(reals[0], spans[0], np.pi / 2, np.pi), np.nan, made)
    if op.name in ("divide", "floor_divide"):
        undecided = (reals[1] == 0) & _may_be_zero(reals[0], spans[0])
        return _if(undecided | _may_be_zero(reals[1], spans[1]), np.nan, made)
    if op.name == "power":
        falls = reals[1] - spans[1] < 0
        return _if(falls & _may_be_zero(reals[0], spans[0]), np.nan, made)
    if op.name == "remainder":
        return _of_remainder(reals, spans, made)
    if op.name in ("equal", "not_equal"):
        apart = np.abs(reals[0] - reals[1])
        meets = (apart > 0) & (apart <= spans[0] + spans[1])
        return _if(meets, 1.0, made)
    return None


def _if(flags: Flags, error: float, made: Array) -> Reals:
    return np.broadcast_to(np.where(flags, error, 0.0), made.shape)


def _may_be_zero(x: Reals, error: Reals) -> Flags:
    return np.asarray((error > 0) & (np.abs(x) <= error))


def _holds_turn(x: Reals, error: Reals, first: float, period: float) -> Flags:
    """Mark intervals that hold `first` plus a whole number of periods."""
    with np.errstate(invalid="ignore"):
        next_turn = first + np.ceil((x - error - first) / period) * period
        return np.asarray((error > 0) & (next_turn <= x + error))


def _of_wave(x: Reals, error: Reals, made: Array, peak: float) -> Reals:
    up = np.where(_holds_turn(x, error, peak, 2 * np.pi), 1.0 - made, 0.0)
    down = np.where(_holds_turn(x, error, peak + np.pi, 2 * np.pi), made + 1.0, 0.0)
    return np.maximum(up, down)


def _of_remainder(reals: Sequence[Reals], spans: Sequence[Reals], made: Array) -> Reals:
    """Let a remainder be anything below its divisor where it may jump."""
    x, y = reals
    least = np.abs(y) - spans[1]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        quotient = x / y
        size = np.abs(quotient)
        moved = (spans[0] + size * spans[1]) / np.where(least > 0, least, np.nan)
        jumps = np.floor(quotient - moved) != np.floor(quotient + moved)
        whole = np.maximum(np.abs(made), np.abs(y) - np.abs(made)) + spans[1]
    is_moved = (spans[0] > 0) | (spans[1] > 0)
    whole = np.where(is_moved & jumps, whole, 0.0)
    return np.broadcast_to(np.where((spans[1] > 0) & (least <= 0), np.nan, whole), made.shape)
