"""What float32 rounding alone does to an answer, where cancellation makes much of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.accuracy import (
    Yardstick,
    for_each_element,
    measure,
    row_length,
    row_scale,
)
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Kind
from kernelwright.ir.passes.attention_steps import expand_attention
from kernelwright.ir.passes.softmax import expand_softmax
from kernelwright.ir.reference import Made, reference
from kernelwright.metal.device.base import Array

_DRAWS = 8
"""Fewer may all round alike where a mask keeps one element of a row."""
_ROUNDING = 2.0**-24
_FLOAT32 = np.finfo(np.float32)
_CUT = np.uint64(2**29 - 1)
"""The bits of a float64's fraction that a float32 does not have."""
_PART_ELEMENTS = 1 << 15
_LANES = 32
_SHORT = 128
_SUMS = (Kind.REDUCTION, Kind.SCAN, Kind.CONTRACTION)
_EXACT = frozenset(("max", "min", "argmax", "argmin", "cummax", "cummin"))
_LINEAR = frozenset(("sum", "mean", "cumsum"))
"""Whose result of absolute values is the size of their terms, as is that of every contraction."""
_LUCK = 4.0
"""How much further than the worst draw another sound order of operations may go."""

Reals = NDArray[np.float64]


def forgiving(
    graph: Graph, inputs: Sequence[Array], yardsticks: Sequence[Yardstick]
) -> tuple[Yardstick, ...]:
    """Widen what a case allows to what any float32 arithmetic may do on its inputs.

    The graph is evaluated with every result rounded to float32 up or down by chance (as in
    stochastic arithmetic, J. Vignes 1993), and every sum moved by what adding up may lose. Where
    outputs then move further than MLX happened to err, as `1 - sigmoid(x)` does for large x and
    the norm of a constant row does, the bound was luck.
    """
    random = np.random.default_rng(0)

    def rounded(made: Made) -> Reals:
        size = accumulated(made)
        if np.isscalar(size):
            return rounded_by_chance(made.values, random)
        noise = size * random.standard_normal(made.values.shape)
        # Infinities have no noise, and none may be made where there was a number.
        noisy = np.where(np.isfinite(noise), made.values + noise, made.values)
        return rounded_by_chance(noisy, random)

    arrays = cast("list[Reals]", list(inputs))
    # As one op each would hide how far a rounding before its exponential reaches.
    steps = expand_softmax(expand_attention(graph))
    draws = [reference(steps, arrays, rounded=rounded, clamp="nearest") for _ in range(_DRAWS)]
    return tuple(
        _widened(yardstick, [draw[place] for draw in draws])
        for place, yardstick in enumerate(yardsticks)
    )


def accumulated(made: Made) -> Reals | float:
    """Return the standard deviation of what adding up in float32 does to a result.

    Adding n like numbers one after the other errs by about sqrt(n) / 3 roundings of their sum: a
    random walk whose steps grow with what has been added. Sound kernels divide a row among 32
    lanes, whose errors average out, and meet in a tree, which costs about one rounding; a short
    row one thread may take alone.
    """
    first = made.read[0] if made.read else made.values
    if made.op.name in _EXACT or made.op.kind not in _SUMS:
        return 0.0
    terms = first.size // max(made.values.size, 1)
    if terms <= 1 or made.op.kind is not Kind.REDUCTION:
        terms = first.shape[-1] if first.ndim else 1
    lanes = _LANES if terms > _SHORT else 1
    return _ROUNDING * math.hypot(1, math.sqrt(terms) / 3 / lanes) * _size_of_terms(made)


def _size_of_terms(made: Made) -> Reals:
    """Return what the result would be if no two terms cancelled each other."""
    is_linear = made.op.name in _LINEAR or made.op.kind is Kind.CONTRACTION
    if not is_linear or made.op.meaning is None:
        return np.abs(made.values)
    # Indices and packed digits stay as they are.
    read = (np.abs(array) if array.dtype.kind == "f" else array for array in made.read)
    sizes = made.op.meaning(made.call, *read)
    return np.asarray(sizes, dtype=np.float64)


def rounded_by_chance(values: Reals, random: np.random.Generator) -> Reals:
    """Round to one of the two float32 neighbours; what float32 holds stays as it is."""
    rounded = np.array(values, np.float64)
    flat = rounded.reshape(-1)
    # Part by part, so that what is computed on the way stays in a core's cache.
    for start in range(0, flat.size, _PART_ELEMENTS):
        part = flat[start : start + _PART_ELEMENTS]
        size = np.abs(part)
        is_beyond = ~((size >= _FLOAT32.tiny) & (size <= _FLOAT32.max))
        beyond = _neighbour_of_any(part[is_beyond], random) if is_beyond.any() else part[:0]
        _cut_to_neighbour(part.view(np.uint64), random)
        part[is_beyond] = beyond
    return rounded


def rounded_alike(values: Reals, seed: int) -> Reals:
    """Round to one of the two float32 neighbours, equal values to the same one.

    Threads that compute a value in one way round it in one way: a tie stays a tie.
    """
    is_nearest = _coins(np.ascontiguousarray(values, np.float64), seed)
    return _neighbour(np.asarray(values, np.float64), is_nearest.reshape(np.shape(values)))


def moved_alike(made: Made, seed: int) -> Reals:
    """Round as `rounded_alike` does, a sum after moving it as far as adding up may.

    Equal sums move alike, and what one seed of a pair moves up the other moves down.
    """
    size = accumulated(made)
    if np.isscalar(size):
        return rounded_alike(made.values, seed)
    wide = np.ascontiguousarray(made.values, np.float64)
    is_up = _coins(wide, seed // 2) ^ (seed % 2 == 1)
    moved = wide + np.where(is_up, _LUCK, -_LUCK) * size
    # Infinities stay, and none may be made where there was a number.
    return rounded_alike(np.where(np.isfinite(moved), moved, wide), seed)


def _coins(values: Reals, seed: int) -> NDArray[np.bool_]:
    """Toss a coin for each value, and the same one for equal values."""
    # As the finalizer of MurmurHash3 does (A. Appleby, public domain), in one round.
    bits = values.view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD + 2 * seed)
    return np.asarray((mixed ^ (mixed >> np.uint64(33))) & np.uint64(1), bool)


def _cut_to_neighbour(bits: NDArray[np.uint64], random: np.random.Generator) -> None:
    """Round what float32 holds as a normal number: its last bits go, and maybe carry one up."""
    rest = bits & _CUT
    bits -= rest
    is_up = np.unpackbits(np.frombuffer(random.bytes(-(-bits.size // 8)), np.uint8))[: bits.size]
    bits += np.where(rest != 0, is_up * (_CUT + np.uint64(1)), np.uint64(0))


def _neighbour_of_any(values: Reals, random: np.random.Generator) -> Reals:
    return _neighbour(values, random.random(values.shape) < 0.5)


def _neighbour(values: Reals, is_nearest: NDArray[np.bool_]) -> Reals:
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(np.float32)
    beyond = np.nextafter(nearest, np.where(values > nearest, np.inf, -np.inf), dtype=np.float32)
    chosen = np.where(is_nearest, nearest, beyond)
    exact = (nearest == values) | ~np.isfinite(nearest) | ~np.isfinite(beyond)
    return np.where(exact, values, chosen).astype(np.float64)


def _widened(yardstick: Yardstick, draws: Sequence[Array]) -> Yardstick:
    if not yardstick.type.dtype.is_float:
        return yardstick
    with np.errstate(over="ignore"):
        outputs = [draw.astype(yardstick.type.dtype.numpy) for draw in draws]
    yardstick = _without_luck(yardstick, outputs)
    scale = row_scale(yardstick.expected.astype(np.float64, copy=False), yardstick.type.dtype)
    errors, row_relative = _of_rows(yardstick, outputs)
    # What rounding outweighs, as in a constant row less its mean, has no size to take a share of.
    vanishes = errors > scale
    if vanishes.any():
        shape = yardstick.expected.shape
        is_nothing = np.repeat(vanishes, row_length(shape)).reshape(shape)
        kept = np.where(is_nothing, np.zeros_like(yardstick.expected), yardstick.expected)
        yardstick = replace(yardstick, expected=kept)
        errors, row_relative = _of_rows(yardstick, outputs)
    shares = np.divide(errors, scale, out=np.zeros_like(scale), where=(scale > 0) & ~vanishes)
    allowed = _LUCK * float(shares.max(initial=0.0)) * scale
    allowed[vanishes] = _LUCK * float(errors[vanishes].max(initial=0.0))
    slack = for_each_element(allowed, yardstick.expected.shape)
    if yardstick.slack is not None:
        slack = np.maximum(slack, yardstick.slack)
    return replace(yardstick, bound=max(yardstick.bound, _LUCK * row_relative), slack=slack)


def _without_luck(yardstick: Yardstick, outputs: Sequence[Array]) -> Yardstick:
    """Let nobody answer for elements that are numbers or none as roundings fall.

    A constant row over its deviation is 0 / 0 where its mean comes out exact, and a number where
    the mean is off by a rounding. A sum of zeros has no roundings: over that, NaN has to be NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = _kinds(yardstick.expected.astype(yardstick.type.dtype.numpy))
    hangs_on_luck = np.any([_kinds(output) != wanted for output in outputs], axis=0)
    if not hangs_on_luck.any():
        return yardstick
    known = yardstick.unstable
    return replace(yardstick, unstable=hangs_on_luck if known is None else known | hangs_on_luck)


def _kinds(values: Array) -> NDArray[np.int8]:
    """Return 0 for finite numbers, and another number for each of NaN and the infinities."""
    wide = values.astype(np.float64, copy=False)
    kinds = np.where(np.isinf(wide), np.sign(wide), 0.0)
    return np.where(np.isnan(wide), 2.0, kinds).astype(np.int8)


def _of_rows(yardstick: Yardstick, outputs: Sequence[Array]) -> tuple[Reals, float]:
    """Return the largest error in each row, and the largest relative error of a whole row."""
    shape = yardstick.expected.shape
    loose = replace(yardstick, bound=np.inf, slack=np.full(shape, np.inf))
    deviations = [measure(output, loose) for output in outputs]
    length = row_length(shape)
    errors = [d.error.reshape(-1, length).max(1) for d in deviations if d.error is not None]
    none = np.zeros(yardstick.expected.size // length)
    return np.max(errors, axis=0, initial=0.0) if errors else none, max(
        d.row_relative for d in deviations
    )
