"""A value of the ideal evaluation beside the error that a sound kernel may have there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.addends import Addends
from kernelwright.evaluator.oracle.error_of_forms import Form
from kernelwright.evaluator.oracle.float_format import (
    FORMATS,
    Reals,
    half_spacing,
    is_inexact,
    only_where,
)
from kernelwright.ir.graph import ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.op import Array

ANYTHING = np.nan
"""The error of a value that one rounding elsewhere may change wholly."""

Common = Mapping[ValueId, Reals]
"""What errors of single values do to many elements at once, by the value, each with its sign."""


@dataclass(frozen=True)
class Tracked:
    """A value of the ideal evaluation, and the error that it may have before it is rounded.

    `error` bounds what the ops behind the value may be off, its own rounding to `dtype` left
    out; None where nothing is lost. Infinity stands for an overflow that a kernel may have or
    not, NaN for a value that may be anything. Of integers it counts units, of flags a flip.
    """

    values: Array
    error: Reals | None
    dtype: Dtype
    is_stored: bool
    """The value is one that its dtype holds: an input, a constant, or moved ones."""
    form: Form | None = None
    """What the value is, where a kernel may compute what reads it in another way."""
    common: Common = field(default_factory=dict)
    """Parts of the error that elements have in common, of values that are summed later on."""
    settled_zeros: NDArray[np.bool_] | None = None
    """Elements whose sign is settled if they are zero, of a value that is one of several."""
    addends: Addends | None = None
    """The terms of a sum that may be added up in another order together with later ones."""

    def read_error(self) -> Reals | None:
        """Return the error that whoever reads the value meets: its rounding is included."""
        if self.is_stored or not self.dtype.is_float:
            return self.error
        inexact = is_inexact(self.values, self.dtype)
        error = self.error
        size = np.abs(self.values)
        if error is not None:
            inexact |= error > 0
            size = size + error
        if not inexact.any():
            return error
        rounding = only_where(inexact, self._rounding())
        beyond = size > FORMATS[self.dtype].largest
        if beyond.any():
            rounding = np.where(beyond & np.isfinite(self.values), np.inf, rounding)
        return rounding if error is None else error + rounding

    def _rounding(self) -> Reals:
        """Return the largest error of one rounding of the values, or of what they are shares of."""
        half = half_spacing(self.values, self.dtype)
        if self.form is None or self.form.kind != "softmax":
            return half
        unit = 2.0 ** -FORMATS[self.dtype].significant_bits
        return np.where(
            np.isfinite(self.values), np.maximum(half, unit * np.abs(self.values)), half
        )
