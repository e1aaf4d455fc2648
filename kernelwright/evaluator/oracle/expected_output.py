"""What one output of one case must be, how far each element may be off, and what is not judged."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.float_format import (
    FLOAT32,
    FORMATS,
    Reals,
    half_spacing,
    only_where,
    rounded_to,
)
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.op import Array

Mask = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
_SECOND_ORDER = 1.25
"""Errors are propagated to first order: a quarter more for what that leaves out."""
_NEAR_THE_EDGE = 2.0
"""Times the least number that overflows."""


@dataclass(frozen=True)
class ExpectedOutput:
    """The right output of a case with its tolerance for each element.

    `expected` is ideal: float64, or exact for integers and flags. An element is right if it is
    `rounded`, the ideal one rounded once, or no further from `expected` than `element_tolerance`.
    """

    type: TensorType
    tolerance: Tolerance
    """What `mx.allclose` is asked for."""
    expected: Array
    rounded: NDArray[np.generic]
    element_tolerance: NDArray[np.float32] | None = None
    """None where nothing but the rounded answer is right."""
    ignored: Mask | None = None
    """Elements that a single sound rounding may change wholly: nobody can judge those."""
    may_vary: Mask | None = None
    """Ignored elements that MLX leaves undefined, so that runs need not agree on them."""
    keeps_sign: bool = False
    """Values are moved only, so that the sign of zero stays."""
    settled_zeros: Mask | None = None
    """Where else a zero has the sign of the rounded answer."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.expected, self.rounded, self.element_tolerance, self.ignored, self.may_vary)
        return sum(a.nbytes for a in arrays if a is not None)

    @cached_property
    def ignored_elements(self) -> int:
        """How many elements nobody can judge."""
        return 0 if self.ignored is None else int(np.count_nonzero(self.ignored))

    @property
    def judged_elements(self) -> int:
        """How many elements are judged."""
        return self.type.size - self.ignored_elements

    def signs_at(self, place: NDArray[np.intp]) -> Mask:
        """Return where a zero has to have the sign of the rounded answer."""
        if self.keeps_sign or self.settled_zeros is None:
            return np.full(place.shape, self.keeps_sign)
        return self.settled_zeros.reshape(-1)[place]

    def tolerance_at(self, place: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how far elements may be off, by their places in the flattened output."""
        if self.element_tolerance is None:
            return np.zeros(place.shape)
        return self.element_tolerance.reshape(-1)[place].astype(np.float64)

    def rows(self, axis: int, rows: slice) -> "ExpectedOutput":
        """Return what some rows along an axis must be."""
        place = (*[slice(None)] * axis, rows)
        expected = self.expected[place]

        def cut(array: NDArray[T] | None) -> NDArray[T] | None:
            return None if array is None else array[place]

        return ExpectedOutput(
            replace(self.type, shape=expected.shape),
            self.tolerance,
            expected,
            self.rounded[place],
            cut(self.element_tolerance),
            cut(self.ignored),
            cut(self.may_vary),
            self.keeps_sign,
            cut(self.settled_zeros),
        )

    def without(self, mask: Mask | None, *, may_vary: bool = False) -> "ExpectedOutput":
        """Return the same with further elements ignored."""
        if mask is None or not mask.any():
            return self
        ignored = mask if self.ignored is None else self.ignored | mask
        vary = self.may_vary
        if may_vary:
            vary = mask if vary is None else vary | mask
        return replace(self, ignored=ignored, may_vary=vary)


def expected_output(tracked: Tracked, type_: TensorType, tolerance: Tolerance) -> ExpectedOutput:
    """Turn an ideal value and the error before its rounding into what an output may be."""
    error = tracked.error
    rounded = rounded_to(tracked.values, type_.dtype)
    if not type_.dtype.is_float:
        return _exact_output(tracked, rounded, type_, tolerance)
    is_small = _may_be_flushed(tracked, type_.dtype)
    if error is None and is_small is None:
        return ExpectedOutput(
            type_,
            tolerance,
            tracked.values,
            rounded,
            keeps_sign=tracked.is_stored,
            settled_zeros=tracked.settled_zeros,
        )
    shape = tracked.values.shape
    values = np.atleast_1d(tracked.values.astype(np.float64, copy=False))
    lost = np.zeros(values.shape) if error is None else _SECOND_ORDER * np.atleast_1d(error)
    with np.errstate(all="ignore"):
        limit, ignored = _limits(values, np.atleast_1d(rounded).astype(np.float64), lost, type_)
        if is_small is not None:
            flushed = np.maximum(limit, FLOAT32.least_normal)
            limit = np.where(np.atleast_1d(is_small) & ~ignored, flushed, limit)
    narrow = _rounded_up(limit)
    return ExpectedOutput(
        type_,
        tolerance,
        tracked.values,
        rounded,
        element_tolerance=narrow.reshape(shape) if narrow.any() else None,
        ignored=ignored.reshape(shape) if ignored.any() else None,
        settled_zeros=tracked.settled_zeros if error is None else None,
    )


def _limits(values: Reals, rounded: Reals, lost: Reals, type_: TensorType) -> tuple[Reals, Mask]:
    """Return how far elements may be off that lose so much, and which of them nobody can judge."""
    largest = FORMATS[type_.dtype].largest
    # The sum of an ideal value and its error may round to infinity where the value does not.
    edge = largest + float(half_spacing(np.array(largest), type_.dtype))
    is_known = np.isfinite(lost)
    ignored = np.zeros(values.shape, bool)
    if not is_known.all():
        # What overflows on the way in some kernels only may just not do so in others.
        is_near = np.isfinite(values) & (np.abs(values) < _NEAR_THE_EDGE * edge)
        ignored = (np.isinf(lost) & (np.isfinite(rounded) | is_near)) | np.isnan(lost)
        lost = only_where(is_known, lost)
    size = np.abs(values) + lost
    is_beyond = size >= edge
    if is_beyond.any():
        ignored |= (np.abs(values) - lost < edge) & is_beyond & (lost > 0)
    off = np.abs(rounded - values)
    limit = np.minimum(off + 2 * lost, half_spacing(size, type_.dtype) + lost)
    return only_where((lost > 0) & np.isfinite(values) & ~ignored, limit), ignored


def _rounded_up(limit: Reals) -> NDArray[np.float32]:
    """Round to the next float32 above the nearest; zeros stay."""
    narrow = np.minimum(limit, FLOAT32.largest).astype(np.float32)
    bits = narrow.view(np.uint32)
    bits += limit > 0
    return narrow


def _may_be_flushed(tracked: Tracked, dtype: Dtype) -> Mask | None:
    """Mark computed float32 denormals, which GPUs flush to zero."""
    if tracked.is_stored or dtype not in (Dtype.FLOAT32, Dtype.BFLOAT16):
        return None
    size = np.abs(tracked.values)
    small = np.asarray((size < FLOAT32.least_normal) & (size > 0))
    return small if small.any() else None


def _exact_output(
    tracked: Tracked, rounded: NDArray[np.generic], type_: TensorType, tolerance: Tolerance
) -> ExpectedOutput:
    """Hold integers and flags to their exact values, but where a rounding decides."""
    error = tracked.error
    plain = ExpectedOutput(type_, tolerance, tracked.values, rounded)
    if error is None:
        return plain
    if type_.dtype.is_complex:
        limit = np.nextafter(error.astype(np.float32), np.float32(np.inf))
        return ExpectedOutput(type_, tolerance, tracked.values, rounded, limit)
    is_open = ~np.isfinite(error)
    if type_.dtype is Dtype.BOOL:
        is_open |= error > 0
        steps = np.zeros(error.shape, np.float32)
    else:
        steps = np.where(is_open, 0, error).astype(np.float32)
    limit_or_none = steps if (steps > 0).any() else None
    return ExpectedOutput(
        type_,
        tolerance,
        tracked.values,
        rounded,
        limit_or_none,
        is_open if is_open.any() else None,
    )
