"""How wrong an output is: what differs from the rounded oracle is held against its tolerance."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.metal.device.executable import Array

SHORTEST_ROW = 32
"""Rows are merged up to this many elements: a norm over fewer says little about an algorithm."""
_PART_ELEMENTS = 1 << 16
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Deviation:
    """How one output differs from what was expected; `bad` marks the elements at fault."""

    problem: str
    """Empty when the output is right."""
    bad: Mask
    maximum_absolute: float = 0.0
    maximum_relative: float = 0.0
    row_relative: float = 0.0
    """Of the row that comes closest to its bound: its error's norm over its own."""
    bound: float = 0.0
    """The norm of that row's tolerances over its own."""

    @property
    def is_acceptable(self) -> bool:
        """True when nothing is wrong with the output."""
        return not self.problem


def measure(found: Array, wanted: ExpectedOutput) -> Deviation:
    """Compare an output with what was expected: shape and dtype, then NaN and Inf, then values."""
    type_ = wanted.type
    if found.shape != type_.shape or found.dtype != type_.dtype.numpy:
        problem = f"is {found.dtype}[{','.join(map(str, found.shape))}], expected {type_}"
        return Deviation(problem, np.ones(type_.shape, bool))
    if not found.size:
        return Deviation("", np.zeros(found.shape, bool))
    flat = np.ascontiguousarray(found).reshape(-1)
    places = [slice(i, i + _PART_ELEMENTS) for i in range(0, flat.size, _PART_ELEMENTS)]
    parts = in_parts(lambda place: _part(flat, wanted, place), places)
    bad = np.zeros(found.shape, bool)
    guilty = np.concatenate([part.guilty for part in parts])
    if not guilty.size:
        return _acceptable(bad, flat, parts, wanted)
    _, error, allowed = _held(flat[guilty], guilty, wanted)
    words, chosen = _words(flat, guilty, error, allowed, wanted)
    bad.reshape(-1)[guilty[chosen]] = True
    finite = error[np.isfinite(error)]
    return Deviation(words, bad, float(finite.max(initial=0.0)) if finite.size else math.inf)


@dataclass(frozen=True)
class _Part:
    """What differs in a stretch of an output."""

    guilty: NDArray[np.intp]
    maximum_absolute: float = 0.0
    maximum_relative: float = 0.0
    tightest: tuple[float, int] = (0.0, 0)
    """The largest share of its tolerance that an element takes, and the place of it."""


def _part(flat: Array, wanted: ExpectedOutput, place: slice) -> _Part:
    places = _different_in(flat[place], wanted, place)
    if not places.size:
        return _Part(places)
    is_bad, error, allowed = _held(flat[places], places, wanted)
    with np.errstate(all="ignore"):
        size = np.abs(wanted.expected.reshape(-1)[places]).astype(np.float64)
        relative = np.where((size > 0) & np.isfinite(error), error / size, 0.0)
        shares = np.where((allowed > 0) & np.isfinite(error), error / allowed, 0.0)
    worst = int(np.argmax(shares))
    return _Part(
        places[is_bad],
        float(np.max(error, initial=0.0, where=np.isfinite(error))),
        float(np.nanmax(relative)),
        (float(shares[worst]), int(places[worst])),
    )


def accepts(wanted: ExpectedOutput, found: Array) -> bool:
    """Say whether an output is right, and read no further than to where it is not."""
    if found.shape != wanted.type.shape or found.dtype != wanted.type.dtype.numpy:
        return False
    flat = np.ascontiguousarray(found).reshape(-1)
    return accepts_made(wanted, lambda place: flat[place])


def accepts_made(wanted: ExpectedOutput, make: Callable[[slice], Array]) -> bool:
    """Say whether what `make` gives for each stretch of a flattened output is right.

    It is asked for no further stretch than the first that is not.
    """
    return all(
        _is_right(make(place), wanted, place)
        for start in range(0, wanted.type.size, _PART_ELEMENTS)
        for place in [slice(start, min(start + _PART_ELEMENTS, wanted.type.size))]
    )


def _is_right(found: Array, wanted: ExpectedOutput, place: slice) -> bool:
    places = _different_in(found, wanted, place)
    is_bad, _, _ = _held(found[places - place.start], places, wanted)
    return not is_bad.any()


def same_bytes(a: Array, b: Array) -> bool:
    """Say whether two arrays hold the same bits in the same shape; both are dense."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    places = [slice(i, i + _PART_BYTES) for i in range(0, one.size, _PART_BYTES)]
    return all(in_parts(lambda place: np.array_equal(one[place], other[place]), places))


def same_but_for_nan(a: Array, b: Array) -> bool:
    """Say whether two arrays of one shape and type hold the same bits, or NaN at the same places.

    Which of two NaN comes through an operation is not defined.
    """
    one, other = (np.ascontiguousarray(array).reshape(-1) for array in (a, b))

    def agrees(place: slice) -> bool:
        x, y = one[place], other[place]
        if np.array_equal(x.view(np.uint8), y.view(np.uint8)):
            return True
        left = ~((x != x) & (y != y))
        return bool(x[left].tobytes() == y[left].tobytes())

    places = [slice(i, i + _PART_ELEMENTS) for i in range(0, one.size, _PART_ELEMENTS)]
    return all(in_parts(agrees, places))


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many neighbouring elements form a row: trailing axes up to `SHORTEST_ROW`."""
    length = 1
    for extent in reversed(shape):
        length *= extent
        if length >= SHORTEST_ROW:
            break
    return max(length, 1)


def _different_in(found: Array, wanted: ExpectedOutput, place: slice) -> NDArray[np.intp]:
    """Return the places of a stretch where what was found there is not the rounded answer."""
    bits: np.dtype[np.generic] = np.dtype(f"u{found.dtype.itemsize}")
    rounded = wanted.rounded.reshape(-1)[place]
    if found.dtype.itemsize in (1, 2, 4, 8):
        differs = found.view(bits) != rounded.view(bits)
    else:
        differs = found != rounded
    if wanted.ignored is not None:
        differs = differs & ~wanted.ignored.reshape(-1)[place]
    return np.asarray(np.flatnonzero(differs) + place.start, np.intp)


def _held(
    found: Array, places: NDArray[np.intp], wanted: ExpectedOutput
) -> tuple[Mask, NDArray[np.float64], NDArray[np.float64]]:
    """Return which of some elements are at fault, how far each is off, and may be."""
    rounded = wanted.rounded.reshape(-1)[places]
    ideal = wanted.expected.reshape(-1)[places]
    allowed = wanted.tolerance_at(places)
    if found.dtype.kind not in "cfV":
        distance = np.abs(found.astype(np.float64) - rounded.astype(np.float64))
        distance[(found != rounded) & (distance == 0)] = 1.0
        return distance > allowed, distance, allowed
    with np.errstate(all="ignore"):
        wide = found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)
        error = np.abs(wide - ideal)
        same = (found == rounded) | ((wide != wide) & (ideal != ideal))
        error = np.where(same, 0.0, error)
        if found.dtype.kind != "c":
            # NaN may have either sign; zero has the one that it came with.
            turned = np.signbit(wide) != np.signbit(rounded.astype(np.float64))
            turned &= (found == 0) & (rounded == 0) & wanted.signs_at(places)
            if wanted.keeps_sign:
                return turned | ~(error <= allowed), error, allowed
        else:
            turned = np.zeros(found.shape, bool)
        kinds_differ = np.isfinite(wide) != np.isfinite(rounded.astype(wide.dtype))
    return turned | ~(error <= allowed) | kinds_differ, error, allowed


def _acceptable(
    bad: Mask, flat: Array, parts: Sequence[_Part], wanted: ExpectedOutput
) -> Deviation:
    """Report what is different within its tolerance: the worst element, and the tightest row."""
    share, place = max(part.tightest for part in parts)
    row, bound = _row_of(flat, wanted, place) if share else (0.0, 0.0)
    return Deviation(
        "",
        bad,
        maximum_absolute=max(part.maximum_absolute for part in parts),
        maximum_relative=max(part.maximum_relative for part in parts),
        row_relative=row,
        bound=bound,
    )


def _row_of(flat: Array, wanted: ExpectedOutput, place: int) -> tuple[float, float]:
    """Return the relative error of the row that holds a place, and of its tolerances."""
    length = row_length(wanted.type.shape)
    start = place // length * length
    places = np.arange(start, min(start + length, flat.size))
    _, error, limits = _held(flat[places], places, wanted)
    size = np.abs(wanted.expected.reshape(-1)[places]).astype(np.float64)
    size = np.where(np.isfinite(size), size, 0.0)
    # Squares of what is beyond float32 would overflow.
    peak = float(size.max(initial=0.0))
    if not peak:
        return 0.0, 0.0
    error = np.where(np.isfinite(error), error, 0.0)
    norm, off, held = (float(np.linalg.norm(part / peak)) for part in (size, error, limits))
    return off / norm, held / norm


def _words(
    flat: Array,
    places: NDArray[np.intp],
    error: NDArray[np.float64],
    allowed: NDArray[np.float64],
    wanted: ExpectedOutput,
) -> tuple[str, Mask]:
    """Say what is wrong, the worst kind of fault first, and which of the elements have it."""
    found, right = flat[places], wanted.rounded.reshape(-1)[places]
    if found.dtype.kind not in "cfV":
        return "differs from the exact result", np.ones(places.shape, bool)
    if found.dtype.kind != "c":
        # A candidate may write signalling NaN, which a cast quiets.
        with np.errstate(invalid="ignore"):
            wide, ideal = found.astype(np.float64), right.astype(np.float64)
        for name, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
            kind = test(wide) != test(ideal)
            if kind.any():
                is_extra = bool(test(wide)[kind].any())
                where = "is {} where it must not be" if is_extra else "is not {} where it must be"
                return where.format(name), kind
    with np.errstate(over="ignore"):
        share = np.where(allowed > 0, error / np.maximum(allowed, 1e-300), error)
    worst = int(np.argmax(share))
    if error[worst] == 0:
        return "has zeros of the other sign than those that it is made of", error == 0
    limit = (
        f"rounding explains {allowed[worst]:.2g}" if allowed[worst] else "rounding explains nothing"
    )
    return f"is off by {error[worst]:.2g} at worst, where {limit}", np.ones(places.shape, bool)
