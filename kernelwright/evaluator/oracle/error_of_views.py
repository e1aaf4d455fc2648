"""What rounding does to the bits of a number that is read as another type."""

import numpy as np

from kernelwright.evaluator.oracle.float_format import FLOAT32, Reals, rounded_to
from kernelwright.evaluator.oracle.tracked import ANYTHING, Tracked
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array


def reinterprets(op: Op) -> bool:
    """Say whether an op reads the bits of numbers as another type's."""
    return op.name == "view"


def error_of_view(op: Op, call: Call, read: Tracked, made: Array) -> Reals | None:
    """Leave bits open where a number may round to one of two; numbers that are stored may not."""
    if read.values.dtype.kind != "f" or read.is_stored:
        return None
    assert op.meaning is not None
    low, high = (np.asarray(op.meaning(call, end)) for end in _ends(read))
    nothing = np.isnan(read.values)
    if nothing.any():
        # Which NaN an operation makes is not defined: here it is one whose bits all differ.
        high = np.asarray(op.meaning(call, np.where(nothing, 0.0, read.values)))
    is_open = low != high
    return np.where(is_open, ANYTHING, 0.0) if is_open.any() else None


def _ends(read: Tracked) -> tuple[Reals, Reals]:
    """Return the least and the largest that a value may be once it is rounded."""
    lost = np.zeros(read.values.shape) if read.error is None else read.error
    with np.errstate(all="ignore"):
        known = np.where(np.isnan(lost), np.inf, lost)
        low, high = (rounded_to(e, read.dtype) for e in (read.values - known, read.values + known))
    low, high = low.astype(np.float64), high.astype(np.float64)
    # Denormals may be flushed to zero, and a zero that is computed has either sign.
    floor = FLOAT32.least_normal if read.dtype in (Dtype.FLOAT32, Dtype.BFLOAT16) else 0.0
    is_small = (np.abs(read.values) < floor) | (read.values == 0)
    return np.where(is_small, np.minimum(low, -0.0), low), np.where(
        is_small, np.maximum(high, 0.0), high
    )
