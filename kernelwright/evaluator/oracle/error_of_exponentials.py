"""What sums of exponentials lose: softmax and the logarithm of such a sum, computed in float32."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.error_of_sums import (
    DEVIATIONS,
    SAMPLED,
    alike,
    alike_in,
    lost_beside_large,
    roundings,
)
from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals
from kernelwright.ir.ops import Call, Op

_FEW_MAXIMA = 8
"""Running maxima of as many numbers as a sample holds: those in no order have four or so."""
_NEXT_TO_NOTHING = 21 * math.log(2)
"""How far the middle one of n numbers lies below the largest, and log n more, from where on its
exponential is next to nothing beside those of all."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of a softmax, and what each may be off, as logarithms: neither underflows."""

    logarithms: Reals
    relative: Reals
    below: Reals
    """What each value is less than the largest of its row."""

    @property
    def grown(self) -> Reals:
        """Return by how much the logarithm of their sum may be too large."""
        return np.maximum(_log_of_sum(self.logarithms + self.relative), 0.0)

    @property
    def shrunk(self) -> Reals:
        """Return by how much the logarithm of their sum may be too small."""
        return np.maximum(-_log_of_sum(self.logarithms - self.relative), 0.0)


def error_of_softmax(x: Reals, error: Reals | None, made: Reals) -> Reals:
    """Bound the error of a softmax whose steps run in float32."""
    weights = _weights_of(x, error)
    own = (
        weights.relative
        + (_roundings_of_rows(weights.below) + 5) * UNIT
        + _lost_of_rows(weights.below)
    )
    larger = np.exp(np.minimum(weights.logarithms + own + weights.shrunk, 0.0))
    more = larger * -np.expm1(-own - weights.shrunk)
    less = made * -np.expm1(-own - weights.grown)
    lost = np.where(np.isposinf(weights.below), 0.0, np.maximum(more, less))
    if error is not None:
        # What overflows below the largest has no weight any more.
        lost = np.where(np.isinf(error), np.maximum(lost, made), lost)
    lost = _of_whole_rows(lost, x, error, made)
    small = (made < FLOAT32.least_normal) & np.isfinite(weights.below) & (weights.below > 0)
    return np.where(small, np.maximum(lost, FLOAT32.least_normal), lost)


def error_of_logsumexp(x: Reals, error: Reals | None, made: Reals) -> Reals:
    """Bound the error of a logarithm of a sum of exponentials whose steps run in float32."""
    weights = _weights_of(x, error)
    moved = np.maximum(weights.grown, weights.shrunk)
    logarithm = np.abs(made - np.max(x, axis=-1, keepdims=True))
    lost = (
        moved
        + _roundings_of_rows(weights.below) * UNIT
        + 8 * UNIT * logarithm
        + _lost_of_rows(weights.below)
    )
    return _of_whole_rows(lost, x, error, made)


def _weights_of(x: Reals, error: Reals | None) -> _Weights:
    below = np.max(x, axis=-1, keepdims=True) - x
    # The difference is rounded once, and twice more where it is scaled for exp2; then 4 ulp.
    relative = 3 * UNIT * np.where(np.isfinite(below), below, 0.0) + 8 * UNIT
    if error is not None:
        relative = relative + np.where(np.isfinite(error), error, 0.0)
    return _Weights(-below - _log_of_sum(-below), relative, below)


def _log_of_sum(logarithms: Reals) -> Reals:
    """Return the logarithm of the sum of each row's numbers, which are given by theirs."""
    peak = np.max(logarithms, axis=-1, keepdims=True)
    return np.asarray(peak + np.log(np.sum(np.exp(logarithms - peak), axis=-1, keepdims=True)))


def _roundings_of_rows(below: Reals) -> Reals:
    """Return how many roundings adding up the weights may cost: those next to 1 are all alike."""
    terms = below.shape[-1]
    rows = below.reshape(-1, terms)
    factor = alike(rows)
    if terms >= SAMPLED:
        sample = _sampled(rows)
        powers = np.exp(-sample)
        # Those that a sum does not see are told apart by their exponents.
        seen = np.where(powers > UNIT, powers, -sample)
        factor = np.maximum(factor, alike_in(seen, terms))
    return roundings(terms, factor.reshape(*below.shape[:-1], 1))


def share_lost(x: Reals) -> Reals:
    """Return what share of each row's sum of exponentials is lost, which all weights gain."""
    return _lost_of_rows(np.max(x, axis=-1, keepdims=True) - x)


def _lost_of_rows(below: Reals) -> Reals:
    """Return what share of each row's sum is lost beside large weights, and where it is rescaled.

    An online kernel takes weights from the largest one so far.
    """
    rows = below.reshape(-1, below.shape[-1])
    sample = _sampled(rows)
    lost = _lost_online(sample, lambda chosen: rows[chosen])
    small = np.median(sample, axis=-1) > _NEXT_TO_NOTHING - math.log(rows.shape[-1])
    if small.any():
        powers = np.exp(-rows[small])
        lost[small] = np.maximum(lost[small], lost_beside_large(powers, powers.sum(axis=-1)))
    some = lost > 0
    lost[some] /= np.exp(-rows[some]).sum(axis=-1)
    return lost.reshape(*below.shape[:-1], 1)


def is_rescaled(op: Op) -> bool:
    """Say whether kernels rescale what an op has added up of exponentials, at each new maximum."""
    return op.name == "sum"


def error_of_rescaling(call: Call, powers: Reals) -> Reals | None:
    """Bound what the sum of exponentials loses in an online kernel, of none above 1.

    Those of differences from a row's maximum are so: 1 is among them.
    """
    axes = call.integers("axes")
    rows = np.moveaxis(powers, axes, tuple(range(-len(axes), 0)))
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(powers.shape))
    rows = rows.reshape(math.prod(shape), -1)
    sample = -_sampled(rows)
    sample[rows.max(axis=-1, initial=0.0) != 1] = 0.0
    lost = _lost_online(sample, lambda chosen: -np.log(rows[chosen]))
    return lost.reshape(shape) if lost.any() else None


def _lost_online(sample: Reals, below_of: Callable[[NDArray[np.bool_]], Reals]) -> Reals:
    """Bound what rows lose that are rescaled at each new maximum, from either end.

    Numbers in no order have few, by a sample in which lower numbers stand for larger ones.
    """
    lost = np.zeros(len(sample))
    for towards in (1, -1):
        least = np.minimum.accumulate(sample[:, ::towards], axis=-1)
        rises = (least[:, 1:] < least[:, :-1]).sum(axis=-1) > _FEW_MAXIMA
        if rises.any():
            some = np.ascontiguousarray(below_of(rises)[:, ::towards])
            lost[rises] = np.maximum(lost[rises], _lost_by_rescaling(some))
    return lost


def _sampled(rows: Reals) -> Reals:
    """Return so many numbers of each row, or all."""
    places = np.linspace(0, rows.shape[1] - 1, SAMPLED).astype(int)
    return rows.copy() if rows.shape[1] <= SAMPLED else rows[:, places]


def _lost_by_rescaling(below: Reals) -> Reals:
    """Bound what a sum loses that is multiplied by the exponential of each step of its maximum.

    Equal steps have equal exponentials, which are all rounded alike.
    """
    least = np.minimum.accumulate(below, axis=-1)
    steps = np.where(np.isfinite(least[:, :-1]), least[:, :-1] - least[:, 1:], 0.0)
    so_far = np.cumsum(np.exp(-below[:, :-1]), axis=-1)
    # A difference, an exponential of 4 ulp and a product.
    each = np.where(steps > 0, (9 + 3 * steps) * UNIT * so_far, 0.0)
    root = np.sqrt(np.sum(np.square(each), axis=-1))
    return np.asarray(np.minimum(each.sum(axis=-1), DEVIATIONS * alike(steps) * root))


def _of_whole_rows(lost: Reals, x: Reals, error: Reals | None, made: Reals) -> Reals:
    """Leave a row open in which something may be anything; NaN and infinities stand otherwise.

    Where the maximum may overflow, the whole row is less an infinity, which gives NaN.
    """
    lost = np.where(np.isfinite(made), lost, 0.0)
    if error is None or np.isfinite(error).all():
        return lost
    peak = np.max(x, axis=-1, keepdims=True)
    is_open = np.isnan(error) | (np.isinf(error) & (x == peak))
    return np.where(is_open.any(axis=-1, keepdims=True), np.nan, lost)
