"""A value as the sum of terms that a kernel may add up in any order, and what that may cost.

Adding up n terms in float32 costs n - 1 roundings of at most the sum of their absolute values,
whatever the order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2). A graph's
own order may cost much less, where its partial sums are smaller: `4 x - (u + d)` where u and d
cancel rounds a small sum, and `(4 x - u) - d` a large one.
"""

from dataclasses import dataclass, replace

import numpy as np

from kernelwright.evaluator.oracle.float_format import UNIT, Reals, only_where
from kernelwright.ir.ops.op import Array

FEW_TERMS = 32
"""Terms up to which every rounding is counted; more are taken for a walk."""
_SEEN = 16.0
"""Roundings of what stands beside terms: smaller terms are all rounded alike, or lost."""


@dataclass(frozen=True, slots=True)
class Addends:
    """The terms of a value: how many there are, what they add up to, and what is lost.

    Numbers stand for all elements, arrays have one entry for each.
    """

    terms: Reals | float
    roundings: Reals | float
    """Of a partial sum that is much larger than all terms: so many may adding them cost."""
    size: Reals
    """The sum of absolute terms, without those that are not finite."""
    spent: Reals | float
    """What adding up costs in any order, the rounding of the whole sum included."""
    error: Reals | float
    """What the terms are off by themselves."""

    @classmethod
    def of_term(cls, value: Array, error: Reals | None) -> "Addends":
        """Return a value that is a term by itself, and is rounded already."""
        size = np.abs(value)
        size = only_where(np.isfinite(size), size)
        return cls(1.0, 1.0, size, 0.0, 0.0 if error is None else error)

    @classmethod
    def of_sum(
        cls, terms: Reals | float, roundings: Reals | float, size: Reals, error: Reals | None
    ) -> "Addends":
        """Return a sum of many terms. `error` includes what adding them up by themselves costs."""
        size = only_where(np.isfinite(size), size)
        return cls(terms, roundings, size, UNIT * size, 0.0 if error is None else error)

    def error_in_any_order(self) -> Reals:
        """Bound what the sum may be off before it is rounded itself."""
        return np.asarray(self.error + np.maximum(self.spent - UNIT * self.size, 0.0))

    def plus(self, other: "Addends") -> "Addends":
        """Return the terms of a sum, or difference, of two values."""
        crossed = self._steps(other.size) * other.size + other._steps(self.size) * self.size
        return Addends(
            self.terms + other.terms,
            self.roundings + other.roundings,
            self.size + other.size,
            self.spent + other.spent + UNIT * crossed,
            self.error + other.error,
        )

    def times(self, factor: Array, roundings: float) -> "Addends":
        """Return the terms that are each multiplied, which costs them so many roundings."""
        by = np.abs(factor)
        is_exact = np.frexp(by)[0] == 0.5
        return replace(
            self,
            size=by * self.size,
            spent=by * self.spent,
            error=by * (self.error + np.where(is_exact, 0.0, roundings * UNIT) * self.size),
        )

    def _steps(self, beside: Reals) -> Reals | float:
        """Return how many roundings of a number these terms may cost that are added to it."""
        if np.max(self.terms, initial=0.0) <= FEW_TERMS:
            return self.terms
        is_lost = self.size <= _SEEN * UNIT * self.terms * beside
        return np.where(is_lost, np.maximum(self.terms, self.roundings), self.roundings)
