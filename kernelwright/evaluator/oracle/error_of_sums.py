"""What sums lose: by adding up in float32, and by the errors of their terms."""

import math

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.error_of_products import error_of_running_products
from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals, half_spacing
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Op, mean_divisor
from kernelwright.ir.ops.op import Array

_FEWEST_ROUNDINGS, _ROUNDINGS_A_ROOT = 4.0, 4.0
"""Adding n terms one after the other is a random walk of at most sqrt(n / 3) roundings of their
sum, which it is where the largest come first: seven deviations of that are 4 sqrt(n). Products, a
final scale and a tree of lanes take a few more.
Equal terms are rounded alike within each power of two: n roundings of the sum at most, where a
few large ones come before them."""
DEVIATIONS = 4.0
"""Of independent errors that are uniform within their bounds, whose deviation is 0.58 of the bound:
seven deviations, one in 10^11."""
SAMPLED = 32
_LONG, _STRAYING, _STRIDES = 1 << 14, 8.0, (1, 2, 3, 4, 32, 128, 256, 1024)
"""Terms from which on one is lost in the walk of all others; what a random walk of n steps keeps
within, in sqrt(n); and how kernels walk a row."""
ALIKE = 2.0
"""The largest of numbers of nearly one size over the least."""
_SHARE_OF_SPACING = 1 / 8
"""Of the sum's spacing: half of the terms lie closer together where they are rounded alike."""
_FEW_STEPS = 4.0
"""Steps of a sum's format: terms of more fall at any distance from one, unless they are equal."""
_SHARE_OF_MANY = 1 / 4
"""Of a sum: what so many terms as there are would come to, were they all as the middle one."""
_SHARES_OF_STEP = (1.0, 0.5, 0.25)
"""Of the step at the sum of absolute terms: the sum itself stays below it where signs differ."""


def roundings(terms: Reals | int, factor: Reals | float = 1.0) -> Reals:
    """Return how many roundings of the sum of absolute terms adding up in float32 may cost.

    `factor` is what `alike` says of the terms.
    """
    walk = _ROUNDINGS_A_ROOT * np.sqrt(np.maximum(terms, 1)) * np.asarray(factor)
    return np.asarray(_FEWEST_ROUNDINGS + np.minimum(walk, terms))


def accumulated(size: Reals, terms: Reals | int, factor: Reals | float = 1.0) -> Reals:
    """Bound what adding up loses; `size` is the sum of the terms' absolute values."""
    return roundings(terms, factor) * UNIT * np.where(np.isfinite(size), size, 0.0)


def overflowed(lost: Reals, size: Reals, made: Array) -> Reals:
    """Let sums overflow on the way whose terms of one sign add up to more than float32 holds.

    `size` is the sum of the absolute terms, `made` that of the terms. Which of the partial sums
    overflow depends on the order; those of both signs add up to NaN.
    """
    if not (size > FLOAT32.largest).any():
        return lost
    ends = (size + made) / 2 + lost, (size - made) / 2 + lost
    above, below = (end > FLOAT32.largest for end in ends)
    lost = np.where(above | below, np.inf, lost)
    return np.where(above & below & np.isfinite(size), np.nan, lost)


def error_of_sum(op: Op, call: Call, x: Reals, error: Reals | None, made: Array) -> Reals | None:
    """Bound the error of a sum or a mean over axes."""
    terms = x.size // max(made.size, 1)
    scale = 1.0 / abs(mean_divisor(call) or math.nan) if op.name == "mean" else 1.0
    axes = call.integers("axes")
    size = scale * np.sum(np.abs(x), axis=axes, keepdims=True)
    if terms <= 1 and scale == 1.0:
        return error
    rows = np.moveaxis(x, axes, tuple(range(-len(axes), 0))).reshape(made.size, terms)
    factor = alike(rows).reshape(size.shape)
    cancels = cancel_by_chance(rows)
    walk = np.where(cancels, ALIKE / math.sqrt(terms), factor.ravel()).reshape(size.shape)
    # Zeros are added without a rounding, as where a mask leaves few terms.
    added = accumulated(size, np.count_nonzero(rows, axis=1).reshape(size.shape), walk) / scale
    # Partial sums that stay small are fewer steps of their grid than a float32 holds.
    ties = np.where(cancels, 0.0, _lost_in_ties(rows, size.ravel() / scale))
    ties = ties + lost_beside_large(rows, size.ravel() / scale)
    added = added + ties.reshape(size.shape)
    lost = scale * overflowed(added, size / scale, made / scale)
    if error is None:
        return lost
    most = np.sum(error, axis=axes, keepdims=True)
    if terms >= SAMPLED:
        root = np.sqrt(np.sum(np.square(error), axis=axes, keepdims=True))
        most = np.minimum(most, DEVIATIONS * factor * root)
    overflows = np.isinf(error)
    if overflows.any():
        ends = [
            ((overflows | np.isinf(x)) & (s * x > 0)).any(axis=axes, keepdims=True) for s in (1, -1)
        ]
        # Infinities of both signs add up to NaN, those of one outweigh what the others make of it.
        against = np.where(made > 0, ends[1], ends[0]) & overflows.any(axis=axes, keepdims=True)
        most = np.where(against, np.nan, most)
    return np.asarray(lost + scale * most)


def cancel_by_chance(rows: Reals) -> NDArray[np.bool_]:
    """Mark long rows of numbers of nearly one size whose signs follow no order.

    Partial sums of n such terms, in whatever order a kernel takes them, are of some sqrt(n) terms,
    so that each addition errs by a sqrt(n)-th of what it does elsewhere, and all of them together
    by four roundings of the sum of absolute terms at seven deviations, if all are of one size.
    """
    found = np.zeros(len(rows), np.bool_)
    if rows.shape[1] < _LONG:
        return found
    places = np.linspace(0, rows.shape[1] - 1, SAMPLED).astype(int)
    sizes = np.abs(rows[:, places])
    least, largest = sizes.min(axis=1), sizes.max(axis=1)
    is_one_size = (largest <= ALIKE * least) & (least > 0)
    for row in np.flatnonzero(is_one_size & np.isfinite(largest)):
        found[row] = _has_no_order(rows[row])
    return found


def _has_no_order(row: Reals) -> bool:
    """Say whether terms are of nearly one size, and partial sums small, however it is strided."""
    sizes = np.abs(row)
    if not sizes.max() <= ALIKE * sizes.min():
        return False
    most = _STRAYING * sizes.max() * math.sqrt(row.size)
    for stride in _STRIDES:
        whole = row[: row.size // stride * stride]
        if np.abs(np.cumsum(whole.reshape(-1, stride).T)).max(initial=0.0) > most:
            return False
    return True


def _lost_in_ties(rows: Reals, sizes: Reals) -> Reals:
    """Bound what ties cost long rows of short numbers, such as ramps of whole ones.

    Beyond 2^24 steps of their grid such terms fall between two neighbours of the sum again and
    again, and where they stand in an order all of them may be rounded one way.
    """
    terms = rows.shape[1]
    lost = np.zeros(len(rows))
    if terms < _LONG:
        return lost
    steps = _grid_steps(rows[:, np.linspace(0, terms - 1, SAMPLED).astype(int)])
    shows = (steps * terms / 2 > UNIT * sizes * math.sqrt(terms)) & (sizes * UNIT > steps)
    for row in np.flatnonzero(shows & np.isfinite(steps)):
        lost[row] = _grid_steps(rows[row : row + 1])[0] * terms / 2
    return lost


def lost_beside_large(rows: Reals, sizes: Reals) -> Reals:
    """Bound what rows lose most of whose terms are next to nothing beside a few large ones.

    Between two powers of two a float32 sum is a whole number of steps, and so is what it grows by:
    each term is rounded to steps by itself. That is the same in any order, and no random walk
    where terms fall short of half a step and all of them are lost.
    """
    lost = np.zeros(len(rows))
    if rows.shape[1] < SAMPLED:
        return lost
    shows = _are_small(rows, sizes) & np.isfinite(sizes)
    if not shows.any():
        return lost
    small, steps = rows[shows], _steps_at(sizes[shows])
    for share in _SHARES_OF_STEP:
        step = share * steps[:, None]
        walked = np.cumsum(np.rint(small / step) * step - small, axis=1)
        # Of any neighbours, as where a lane that holds a large term takes some of the others.
        apart = walked.max(axis=1, initial=0.0) - walked.min(axis=1, initial=0.0)
        lost[shows] = np.maximum(lost[shows], apart)
    return lost


def _lost_so_far(op: Op, call: Call, x: Reals, sizes: Reals) -> Reals | float:
    """Bound what each running sum loses as `lost_beside_large` has it, in their own order."""
    assert op.meaning is not None
    axis = call.integer("axis")
    ends = sizes.max(axis=axis, initial=0.0).ravel()
    rows = np.moveaxis(x, axis, -1).reshape(len(ends), -1)
    if rows.shape[1] < SAMPLED or not _are_small(rows, ends).any():
        return 0.0
    lost = np.zeros(x.shape)
    for share in _SHARES_OF_STEP:
        steps = share * _steps_at(sizes)
        off = np.rint(x / steps) * steps - x
        walked = op.meaning(call, np.where(np.isfinite(off), off, 0.0))
        lost = np.maximum(lost, np.abs(walked))
    return np.where(np.isfinite(sizes), lost, 0.0)


def _steps_at(sizes: Reals) -> Reals:
    """Return how far neighbours of float32 lie apart at each size."""
    return 2 * half_spacing(np.where(np.isfinite(sizes), sizes, 0.0), Dtype.FLOAT32)


def _are_small(rows: Reals, sizes: Reals) -> NDArray[np.bool_]:
    """Mark rows most of whose terms are next to nothing beside a few, by a sample of them."""
    sample = np.sort(np.abs(rows[:, np.linspace(0, rows.shape[1] - 1, SAMPLED).astype(int)]))
    zeros = (sample == 0).sum(axis=1, keepdims=True)
    middle = np.minimum((zeros + SAMPLED) // 2, SAMPLED - 1)
    typical = np.take_along_axis(sample, middle, axis=1)[:, 0]
    few = typical * rows.shape[1] < _SHARE_OF_MANY * sizes
    return np.asarray(few & (typical < _FEW_STEPS * _steps_at(sizes)))


def _grid_steps(rows: Reals) -> Reals:
    """Return for each row the largest power of two that all its numbers are multiples of."""
    kept = np.where(np.isfinite(rows), rows, 0.0)
    fractions, exponents = np.frexp(kept)
    whole = np.abs(fractions * 2.0**53).astype(np.int64)
    steps = np.ldexp((whole & -whole).astype(np.float64), exponents - 53)
    return np.asarray(np.where(kept == 0, np.inf, steps).min(axis=1))


def alike(rows: Reals) -> Reals:
    """Return for each row by how much equal terms, which are rounded alike, widen its error."""
    terms = rows.shape[1]
    if terms < SAMPLED:
        return np.full(len(rows), math.sqrt(max(terms, 1)))
    return alike_in(rows[:, np.linspace(0, terms - 1, SAMPLED).astype(int)], terms)


def alike_in(sample: Reals, terms: int) -> Reals:
    """Return what `alike` says of rows of so many terms, by a sample of them."""
    sample = np.sort(sample, axis=1)
    different = 1 + (sample[:, 1:] != sample[:, :-1]).sum(axis=1)
    # Terms are as good as equal whose differences a float32 sum of them does not see.
    low, middle, high = (sample[:, SAMPLED * part // 4] for part in (1, 2, 3))
    unseen = UNIT * terms * _SHARE_OF_SPACING * np.abs(middle)
    different = np.where(high - low < unseen, np.minimum(different, 2), different)
    # Nine in ten are as good as all.
    return np.where(different > 0.9 * SAMPLED, 1.0, np.sqrt(terms / different))


def alike_along(values: Array, axis: int) -> Reals:
    """Return what `alike` says of the rows along an axis, without that axis."""
    rows = np.moveaxis(values, axis, -1)
    return alike(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:-1])


def error_of_scan(op: Op, call: Call, x: Array, error: Reals | None, made: Array) -> Reals | None:
    """Bound the error of each running value."""
    assert op.meaning is not None
    axis = call.integer("axis")
    if op.name in ("cummax", "cummin"):
        if error is None:
            return None
        return np.broadcast_to(np.max(error, axis=axis, keepdims=True), made.shape).copy()
    if x.dtype.kind != "f":
        return None if error is None else np.full(made.shape, np.nan)
    terms = x.shape[axis]
    if op.name == "cumsum":
        factor = np.expand_dims(alike_along(x, axis), axis)
        size = np.asarray(op.meaning(call, np.abs(x)))
        added = accumulated(size, terms, factor) + _lost_so_far(op, call, x, size)
        lost = overflowed(added, size, made)
        return lost if error is None else lost + op.meaning(call, error)
    if op.name == "cumprod":
        return error_of_running_products(op, call, x, error, made)
    lost = 8 * UNIT * np.maximum.accumulate(np.abs(made), axis) + roundings(terms) * 8 * UNIT
    return lost if error is None else lost + np.max(error, axis=axis, keepdims=True)
