"""How wrong an output is: what differs from the rounded oracle is held against its tolerance."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.metal.device.base import Array

SHORTEST_ROW = 32
"""Rows are merged up to this many elements: a norm over fewer says little about an algorithm."""
_PART_ELEMENTS = 1 << 18
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
    places = _different(flat, wanted)
    bad_places, error, allowed = _held(flat, places, wanted)
    bad = np.zeros(found.shape, bool)
    if not bad_places.any():
        return _acceptable(bad, places, error, allowed, wanted)
    words, chosen = _words(flat, places[bad_places], error[bad_places], allowed[bad_places], wanted)
    bad.reshape(-1)[places[bad_places][chosen]] = True
    worst = error[bad_places]
    finite = worst[np.isfinite(worst)]
    return Deviation(words, bad, float(finite.max(initial=0.0)) if finite.size else math.inf)


def accepts(wanted: ExpectedOutput, found: Array) -> bool:
    """Say whether an output is right, and read no further than to where it is not."""
    if found.shape != wanted.type.shape or found.dtype != wanted.type.dtype.numpy:
        return False
    if not found.size:
        return True
    flat = np.ascontiguousarray(found).reshape(-1)
    for start in range(0, flat.size, _PART_ELEMENTS):
        places = _different_in(flat, wanted, slice(start, start + _PART_ELEMENTS))
        if _held(flat, places, wanted)[0].any():
            return False
    return True


def same_bytes(a: Array, b: Array) -> bool:
    """Say whether two arrays hold the same bits in the same shape; both are dense."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    places = [slice(i, i + _PART_BYTES) for i in range(0, one.size, _PART_BYTES)]
    return all(in_parts(lambda place: np.array_equal(one[place], other[place]), places))


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many neighbouring elements form a row: trailing axes up to `SHORTEST_ROW`."""
    length = 1
    for extent in reversed(shape):
        length *= extent
        if length >= SHORTEST_ROW:
            break
    return max(length, 1)


def _different(flat: Array, wanted: ExpectedOutput) -> NDArray[np.intp]:
    """Return the places whose bits are not those of the rounded oracle, ignored ones left out."""
    places = [slice(i, i + _PART_ELEMENTS) for i in range(0, flat.size, _PART_ELEMENTS)]
    found: NDArray[np.intp] = np.concatenate(
        in_parts(lambda place: _different_in(flat, wanted, place), places)
    )
    return found


def _different_in(flat: Array, wanted: ExpectedOutput, place: slice) -> NDArray[np.intp]:
    bits: np.dtype[np.generic] = np.dtype(f"u{flat.dtype.itemsize}")
    rounded = wanted.rounded.reshape(-1)[place]
    if flat.dtype.itemsize in (1, 2, 4, 8):
        differs = flat[place].view(bits) != rounded.view(bits)
    else:
        differs = flat[place] != rounded
    if wanted.ignored is not None:
        differs = differs & ~wanted.ignored.reshape(-1)[place]
    return np.asarray(np.flatnonzero(differs) + place.start, np.intp)


def _held(
    flat: Array, places: NDArray[np.intp], wanted: ExpectedOutput
) -> tuple[Mask, NDArray[np.float64], NDArray[np.float64]]:
    """Return which of the different elements are at fault, how far each is off, and may be."""
    found, rounded = flat[places], wanted.rounded.reshape(-1)[places]
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
        if wanted.keeps_sign and found.dtype.kind != "c":
            # NaN may have either sign; zero has the one that it came with.
            turned = (found == 0) & (np.signbit(wide) != np.signbit(rounded.astype(np.float64)))
            return turned | ~(error <= allowed), error, allowed
        kinds_differ = np.isfinite(wide) != np.isfinite(rounded.astype(wide.dtype))
    return ~(error <= allowed) | kinds_differ, error, allowed


def _acceptable(
    bad: Mask,
    places: NDArray[np.intp],
    error: NDArray[np.float64],
    allowed: NDArray[np.float64],
    wanted: ExpectedOutput,
) -> Deviation:
    """Report what is different within its tolerance: the worst element, and the tightest row."""
    if not places.size or wanted.rounded.dtype.kind == "c":
        return Deviation("", bad)
    with np.errstate(all="ignore"):
        size = np.abs(wanted.expected.reshape(-1)[places].astype(np.float64))
        relative = np.where(size > 0, error / size, 0.0)
        relative = relative[np.isfinite(relative)]
        tightest = int(np.argmax(np.where(allowed > 0, error / allowed, 0.0)))
    row, bound = _row_of(wanted, places, error, int(places[tightest]))
    return Deviation(
        "",
        bad,
        maximum_absolute=float(error.max()),
        maximum_relative=float(relative.max(initial=0.0)),
        row_relative=row,
        bound=bound,
    )


def _row_of(
    wanted: ExpectedOutput, places: NDArray[np.intp], error: NDArray[np.float64], place: int
) -> tuple[float, float]:
    """Return the relative error of the row that holds a place, and of its tolerances."""
    length = row_length(wanted.type.shape)
    row = slice(place // length * length, place // length * length + length)
    size = wanted.expected.reshape(-1)[row].astype(np.float64)
    norm = float(np.linalg.norm(np.where(np.isfinite(size), size, 0.0)))
    inside = error[(places >= row.start) & (places < row.stop)]
    limits = wanted.tolerance_at(np.arange(row.start, min(row.stop, wanted.type.size)))
    if not norm:
        return 0.0, 0.0
    return float(np.linalg.norm(inside)) / norm, float(np.linalg.norm(limits)) / norm


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
        wide, ideal = found.astype(np.float64), right.astype(np.float64)
        for name, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
            kind = test(wide) != test(ideal)
            if kind.any():
                is_extra = bool(test(wide)[kind].any())
                where = "is {} where it must not be" if is_extra else "is not {} where it must be"
                return where.format(name), kind
    worst = int(np.argmax(np.where(allowed > 0, error / np.maximum(allowed, 1e-300), error)))
    if error[worst] == 0:
        return "has zeros of the other sign than those that were moved there", error == 0
    limit = (
        f"rounding explains {allowed[worst]:.2g}" if allowed[worst] else "nothing is rounded twice"
    )
    return f"is off by {error[worst]:.2g} where {limit}", np.ones(places.shape, bool)
