"""Which zeros keep their sign where a result is one of several values: sorts, extremes, choices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.float_format import FLOAT32
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, Op
from kernelwright.ir.ops.op import Array

Mask = NDArray[np.bool_]


def settled_zeros(op: Op, call: Call, read: Sequence[Tracked], made: Array) -> Mask | None:
    """Mark results whose sign nothing leaves open if they are zero; None where there are none.

    Zeros of either sign are equal, so a maximum of both may be either. Where all zeros among
    which one is picked have one sign, so has the one that is picked.
    """
    if made.dtype.kind != "f" or not (made == 0).any() or any(r.error is not None for r in read):
        return None
    if op.behaviour.chooses:
        return _of_choice(read, made)
    known = _known(read[0])
    if op.kind is Kind.VIEW and len(read) == 1:
        assert op.meaning is not None
        return np.asarray(op.meaning(call, known), bool)
    if op.kind is Kind.REDUCTION and op.behaviour.is_extreme:
        return _of_row(read[0], known, call.integers("axes"), made)
    if op.kind is Kind.SORT:
        return _of_row(read[0], known, (call.integer("axis"),), made)
    return None


def _of_choice(read: Sequence[Tracked], made: Array) -> Mask | None:
    """Let a choice under a certain condition settle what its arms do."""
    taken, other = (_known(r) & _is_varied(r.values) for r in read[1:])
    settled = np.where(read[0].values.astype(bool), taken, other)
    return np.broadcast_to(settled, made.shape) if settled.any() else None


def _of_row(read: Tracked, known: Mask, axes: tuple[int, ...], made: Array) -> Mask:
    signs = _signs(read)
    settled = (known | (signs == 0)).all(axis=axes, keepdims=True)
    meet = (signs > 0).any(axis=axes, keepdims=True) & (signs < 0).any(axis=axes, keepdims=True)
    return np.broadcast_to(settled & ~meet, made.shape)


def _known(read: Tracked) -> Mask:
    if read.settled_zeros is not None:
        return read.settled_zeros
    return np.full(read.values.shape, read.is_stored)


def _is_varied(values: Array) -> bool:
    """Say whether an arm is no constant: zeros of those may rightly be products with zero."""
    return bool(values.size and (values != values.flat[0]).any())


def _signs(read: Tracked) -> Array:
    """Return one with the sign of each zero, and of what a GPU flushes to one; else zero."""
    values = read.values
    is_zero = values == 0
    if read.dtype in (Dtype.FLOAT32, Dtype.BFLOAT16):
        is_zero = np.abs(values) < FLOAT32.least_normal
    return np.where(is_zero, np.copysign(1.0, values), 0.0)
