"""Compares a kernel's results with the original's; the text of this file is part of exported tests.

Rounding moves a result by a tolerance. Where a result jumps (a quantizer's step, a threshold, the
rank of equals) or loses its digits (the cosine of a large angle), rounding moves it further: there
a result has to lie among those that the original gives for inputs moved by their last bits. A value
on the way may stand at a step that no input's last bits reach, as one far below what is added to
it: one element of `RARE` may be off by what moving does to another. Where the original adds up in
half precision, as MLX's softmax does on a CPU, it loses digits that a kernel keeps: its results for
the same inputs in float32 count as well.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

from collections.abc import Callable, Sequence

import mlx.core as mx

# Each run moves inputs by as many halves of their last bit at most.
MOVES = (1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8)
RARE = 10_000


def moved(array: mx.array, run: int, place: int) -> mx.array:
    """Return an array whose floats are off by some of their last bits, up or down."""
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    key = mx.random.key(7919 * run + place)
    share = mx.random.uniform(-1, 1, array.shape, key=key)
    step = mx.finfo(array.dtype).eps * MOVES[run]
    return (array.astype(mx.float32) * (1 + step * mx.sign(share))).astype(array.dtype)


def widened(array: mx.array) -> mx.array:
    """Return an array in float32 where it has floats of half precision."""
    return array.astype(mx.float32) if array.dtype in (mx.float16, mx.bfloat16) else array


def neighbours(compute: Callable, arrays: Sequence[mx.array]) -> list[list[mx.array]]:
    """Return what the original gives for inputs moved by their last bits, and for wider ones."""
    made = []
    shifts = ([moved(a, run, place) for place, a in enumerate(arrays)] for run in range(len(MOVES)))
    for nearby in ([widened(a) for a in arrays], *shifts):
        results = compute(nearby)
        if not isinstance(results, str):
            made.append(results)
    return made


def is_close(a: mx.array, b: mx.array, others: Sequence[mx.array] = ()) -> bool:
    """Compare elements with the original's, and with the span of its results nearby."""
    if not a.size:
        return True
    if mx.issubdtype(b.dtype, mx.complexfloating):
        parts = [[f(x) for x in (a, b, *others)] for f in (mx.real, mx.imag)]
        return all(is_close(x, y, rest) for x, y, *rest in parts)
    slack = 0
    if mx.issubdtype(b.dtype, mx.floating):
        tolerance = 4e-5 if b.dtype == mx.float32 else 4e-2 if b.dtype == mx.bfloat16 else 4e-3
        a, b, *others = (x.astype(mx.float32) for x in (a, b, *others))
        # Both sides round, and may err to either side; where terms cancel, by the largest of them.
        size = mx.where(mx.isfinite(b), mx.abs(b), 0)
        slack = tolerance * (mx.maximum(mx.max(size), 0.05) + size)
    else:
        a, b, *others = (x.astype(mx.int64) for x in (a, b, *others))
    low = high = b
    undefined = b != b
    for other in others:
        low = mx.where(other < low, other, low)
        high = mx.where(other > high, other, high)
        undefined = undefined | (other != other)
    same = (a == b) | ((a != a) & undefined)
    beyond = ~(same | (a >= low - slack) & (a <= high + slack))
    step = mx.max(mx.where(mx.isfinite(high) & mx.isfinite(low), high - low, 0))
    near = same | (a >= low - slack - step) & (a <= high + slack + step)
    return mx.all(near).item() and mx.sum(beyond).item() <= a.size // RARE


def is_equal(a: mx.array, b: mx.array, others: Sequence[mx.array] = ()) -> bool:
    """Compare every bit but those of NaN."""
    return mx.array_equal(a, b, equal_nan=mx.issubdtype(b.dtype, mx.inexact)).item()


def disagreement(
    found: Sequence[mx.array],
    wanted: Sequence[mx.array],
    compute: Callable,
    arrays: Sequence[mx.array],
    has_order: bool,
) -> str:
    """Say how results differ beyond rounding, or nothing; `compute` is the original's."""
    said = difference(found, wanted, has_order=has_order)
    return said and difference(found, wanted, neighbours(compute, arrays), has_order=has_order)


def difference(
    found: Sequence[mx.array],
    wanted: Sequence[mx.array],
    near: Sequence[Sequence[mx.array]] = (),
    *,
    has_order: bool = True,
    same: Callable = is_close,
) -> str:
    """Say how results differ, or nothing; `near` are the original's for inputs moved a little."""
    if len(found) != len(wanted):
        return f"{len(found)} arrays, expected {len(wanted)}"
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {place} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        others = [results[place] for results in near]
        agrees = same(a, b, others)
        if not agrees and not has_order and a.ndim:
            # A row's elements may come in any order.
            a, b, *others = (mx.sort(x, axis=-1) for x in (a, b, *others))
            agrees = same(a, b, others)
        if not agrees:
            return f"result {place} has other values"
    return ""
