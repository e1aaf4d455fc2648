"""What sums of exponentials lose: softmax and the logarithm of such a sum, computed in float32."""

from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.oracle.error_of_sums import alike, roundings
from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals


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
    own = weights.relative + (_roundings_of_rows(x) + 5) * UNIT
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
    lost = moved + _roundings_of_rows(x) * UNIT + 8 * UNIT * logarithm
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


def _roundings_of_rows(x: Reals) -> Reals:
    factor = alike(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], 1)
    return roundings(x.shape[-1], factor)


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
