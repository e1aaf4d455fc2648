"""Compares the arrays of two results, each element by what rounding may do to it."""

from collections.abc import Sequence

import mlx.core as mx

from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.capture import to_dtype
from kernelwright.runtime.export.function.case import Flat
from kernelwright.runtime.export.function.ways import outcome, ways

_PERTURBED = 3


# A few roundings on the way add to the one of the input.
_NOISE = 8.0


def unlike(
    found: Sequence[mx.array],
    wanted: Sequence[mx.array],
    *,
    exact: bool,
    has_order: bool = True,
    noise: Sequence[mx.array] = (),
) -> str:
    """Say how results differ, or nothing.

    Where the graph takes ranks of unsorted rows, a row's elements may come in any order. `noise`
    says how far each element may be off beside the tolerance, if it is given.
    """
    if len(found) != len(wanted):
        return f"{len(found)} arrays, expected {len(wanted)}"
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {place} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        same = _close(a, b, exact=exact, noise=noise[place] if noise else None)
        if not same and not has_order and a.ndim:
            same = _close(mx.sort(a, axis=-1), mx.sort(b, axis=-1), exact=exact)
        if not same:
            return f"result {place} has other values"
    return ""


def noise_of(
    flat: Flat, results: Sequence[mx.array], arrays: Sequence[mx.array], way: str
) -> list[mx.array]:
    """Estimate how far rounding alone moves each result: inputs are moved by their last bit.

    The cosine of an angle of thousands has no more digits than that, in MLX or in a kernel.
    """
    worst: list[mx.array] = []
    for seed in range(_PERTURBED):
        moved = [_moved(a, seed, place) for place, a in enumerate(arrays)]
        made = outcome(dict(ways(flat, moved))[way])
        if isinstance(made, str):
            return []
        steps = [_distance(a, b) for a, b in zip(made, results, strict=True)]
        worst = [mx.maximum(w, s) for w, s in zip(worst, steps, strict=True)] if worst else steps
    return [_NOISE * w for w in worst]


def _moved(array: mx.array, seed: int, place: int) -> mx.array:
    """Return an array whose floats are off by half of their last bit, up or down."""
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    key = mx.random.key(7919 * seed + place)
    sign = 2.0 * mx.random.bernoulli(0.5, array.shape, key=key).astype(mx.float32) - 1
    step = mx.finfo(array.dtype).eps
    return (array.astype(mx.float32) * (1 + step * sign)).astype(array.dtype)


def _distance(a: mx.array, b: mx.array) -> mx.array:
    if not mx.issubdtype(b.dtype, mx.inexact):
        return mx.zeros(b.shape)
    wide = mx.complex64 if mx.issubdtype(b.dtype, mx.complexfloating) else mx.float32
    apart = mx.abs(a.astype(wide) - b.astype(wide))
    return mx.where(mx.isfinite(apart), apart, 0)


def _close(a: mx.array, b: mx.array, *, exact: bool, noise: mx.array | None = None) -> bool:
    inexact = mx.issubdtype(a.dtype, mx.inexact)
    if exact or not inexact or not a.size:
        return bool(mx.array_equal(a, b, equal_nan=inexact).item())
    tolerance = Tolerance.of(to_dtype(a.dtype))
    wide = mx.complex64 if mx.issubdtype(a.dtype, mx.complexfloating) else mx.float32
    a, b = a.astype(wide), b.astype(wide)
    # Both sides round, and may err to either side; where terms cancel, by the largest of them.
    largest = mx.max(mx.where(mx.isfinite(b), mx.abs(b), 0)).item()
    relative = 2 * tolerance.relative
    absolute = max(2 * tolerance.absolute, relative * abs(complex(largest)))
    if noise is not None:
        # What rounding moves so far is compared no closer.
        a = mx.where(mx.abs(a - b) <= noise, b, a)
    return bool(mx.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True).item())
