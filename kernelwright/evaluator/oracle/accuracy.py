"""How wrong an output is: masks, tolerance, row-wise error, and what bounds them."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import Array

Mask = NDArray[np.bool_]
SHORTEST_ROW = 32
"""Rows are merged up to this many elements: a norm over fewer says little about an algorithm."""
_FLUSHED = {Dtype.FLOAT16: 2.0**-24, Dtype.BFLOAT16: 2.0**-126, Dtype.FLOAT32: 2.0**-126}
"""Differences below these do not count: GPUs flush float32 denormals, half has no smaller step."""
_FLOAT32_STEP = 2.0**-23
_PART_ELEMENTS = 1 << 15
"""Half a megabyte for two arrays in float64: what a core's second-level cache holds."""
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Yardstick:
    """What one output of one case must equal, and how closely.

    `expected` is the float64 oracle (the exact dtype for integers and flags); `unstable` marks
    elements that a single rounding may flip and that nobody can be blamed for; `slack` is what
    each element may be off even where that leaves the tolerance: by cancellation, as a rule.
    """

    type: TensorType
    tolerance: Tolerance
    expected: Array
    bound: float
    reference_error: float
    unstable: Mask | None = None
    slack: NDArray[np.float64] | None = None
    steps: float = 0.0
    """Share of an integer output that may be one off: what was rounded to integers, MLX rounds
    from rounded values itself."""
    undefined: Mask | None = None
    """Which of the unstable elements may be anything, each time."""

    @cached_property
    def wanted(self) -> "tuple[_Wanted, ...]":
        """What can be known of each part of a float output before there is an answer."""
        length = row_length(self.type.shape)
        step = max(_PART_ELEMENTS // length, 1) * length
        places = [slice(i, min(i + step, self.type.size)) for i in range(0, self.type.size, step)]
        return tuple(in_parts(lambda place: _wanted(place, self), places))


@dataclass(frozen=True)
class Deviation:
    """How one output differs from its yardstick; `bad` marks the elements at fault."""

    problem: str
    """Empty when the output is right."""
    bad: Mask
    maximum_absolute: float = 0.0
    maximum_relative: float = 0.0
    row_relative: float = 0.0
    bound: float = 0.0
    """What `row_relative` was held against."""
    error: NDArray[np.float64] | None = None
    """Absolute error per element, where it has a meaning."""
    steps: float = 0.0
    """Share of the elements at fault, of an integer output that is nowhere more than one off."""

    @property
    def is_acceptable(self) -> bool:
        """True when nothing is wrong with the output."""
        return not self.problem


def floor_of(dtype: Dtype, terms: int, nodes: int) -> float:
    """Return the row-relative error that any sound kernel may have.

    One rounding of the output, and float32 sums of `terms` through `nodes` operations, whose
    errors grow with the square root of their number.
    """
    if not dtype.is_float:
        return 0.0
    return dtype.epsilon + 2 * _FLOAT32_STEP * (math.sqrt(terms) + math.sqrt(nodes))


def measure(found: Array, yardstick: Yardstick, *, keeps_error: bool = True) -> Deviation:
    """Compare an output with its yardstick; shape and dtype come first, then masks, then values.

    The error of each element is dropped where nobody `keeps_error`, for it takes as long to write.
    """
    wanted = yardstick.type
    if found.shape != wanted.shape or found.dtype != wanted.dtype.numpy:
        problem = f"is {found.dtype}[{','.join(map(str, found.shape))}], expected {wanted}"
        return Deviation(problem, np.ones(wanted.shape, bool))
    if not found.size:
        return Deviation("", np.zeros(found.shape, bool))
    if wanted.dtype is Dtype.COMPLEX64:
        return _measure_complex(found, yardstick)
    if not wanted.dtype.is_float:
        return _measure_exact(found, yardstick)
    return _measure_float(found, yardstick, keeps_error=keeps_error)


def accepts(yardstick: Yardstick, found: Array) -> bool:
    """Say whether an output is right, and read no further than to where it is not."""
    wanted = yardstick.type
    is_float = wanted.dtype.is_float and wanted.dtype is not Dtype.COMPLEX64
    if not is_float or not found.size or found.shape != wanted.shape:
        return measure(found, yardstick).is_acceptable
    if found.dtype != wanted.dtype.numpy:
        return False
    flat, refused = found.reshape(-1), threading.Event()

    def check(wanted: _Wanted) -> None:
        if not refused.is_set() and _part(flat, wanted, yardstick).fault is not _Fault.NONE:
            refused.set()

    in_parts(check, yardstick.wanted)
    return not refused.is_set()


def same_bytes(a: Array, b: Array) -> bool:
    """Say whether two arrays hold the same bits in the same shape; both are dense."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    places = [slice(i, i + _PART_BYTES) for i in range(0, one.size, _PART_BYTES)]
    return all(in_parts(lambda place: np.array_equal(one[place], other[place]), places))


def _measure_exact(found: Array, yardstick: Yardstick) -> Deviation:
    bad: Mask = np.asarray(found != yardstick.expected)
    if yardstick.unstable is not None:
        bad &= ~yardstick.unstable
    steps = _steps(found, yardstick, bad)
    if 0 < steps <= yardstick.steps:
        return Deviation("", np.zeros(bad.shape, bool), steps=steps)
    return Deviation("differs from the exact result" if bad.any() else "", bad, steps=steps)


def _steps(found: Array, yardstick: Yardstick, bad: Mask) -> float:
    """Return the share of bad elements where each is one off, 0 where one is further."""
    if not yardstick.type.dtype.is_integer or not bad.any():
        return 0.0
    away = np.abs(found[bad].astype(np.float64) - yardstick.expected[bad].astype(np.float64))
    return float(bad.mean()) if (away == 1).all() else 0.0


def _measure_complex(found: Array, yardstick: Yardstick) -> Deviation:
    parts = Yardstick(
        TensorType((*yardstick.type.shape, 2), Dtype.FLOAT32),
        yardstick.tolerance if yardstick.tolerance.relative else Tolerance.of(Dtype.FLOAT32),
        _as_parts(yardstick.expected.astype(np.complex128)),
        max(yardstick.bound, floor_of(Dtype.FLOAT32, 1, 1)),
        yardstick.reference_error,
    )
    deviation = _measure_float(_as_parts(found.astype(np.complex128)), parts, keeps_error=False)
    return Deviation(
        deviation.problem,
        np.asarray(deviation.bad.any(axis=-1)),
        deviation.maximum_absolute,
        deviation.maximum_relative,
        deviation.row_relative,
        deviation.bound,
    )


def _as_parts(array: Array) -> NDArray[np.float64]:
    return np.stack([array.real, array.imag], axis=-1).astype(np.float64)


def _measure_float(found: Array, yardstick: Yardstick, *, keeps_error: bool) -> Deviation:
    flat = found.reshape(-1)
    error = np.empty(found.size) if keeps_error else None
    parts = in_parts(lambda wanted: _part(flat, wanted, yardstick, error), yardstick.wanted)
    fault = min(part.fault for part in parts)
    guilty = [part for part in parts if part.fault is fault is not _Fault.NONE]
    bad = np.zeros(found.shape, bool)
    for part in guilty:
        bad.reshape(-1)[part.place] = part.bad.reshape(-1)
    row_relative = max(part.row_relative for part in parts)
    problem = _words(fault, any(p.is_extra for p in guilty), row_relative, yardstick)
    if fault in _MASKS:
        return Deviation(problem, bad, math.inf, math.inf, math.inf)
    return Deviation(
        problem,
        bad,
        max(part.maximum_absolute for part in parts),
        max(part.maximum_relative for part in parts),
        row_relative,
        yardstick.bound,
        None if error is None else error.reshape(found.shape),
    )


class _Fault(IntEnum):
    """What is wrong with an output, the worst first: only that is reported."""

    NAN = 0
    POSITIVE = 1
    NEGATIVE = 2
    FAR = 3
    CROOKED = 4
    NONE = 5


_MASKS: dict[_Fault, tuple[str, Callable[[NDArray[np.float64]], Mask]]] = {
    _Fault.NAN: ("NaN", np.isnan),
    _Fault.POSITIVE: ("+Inf", np.isposinf),
    _Fault.NEGATIVE: ("-Inf", np.isneginf),
}


@dataclass(frozen=True)
class _Wanted:
    """Some neighbouring rows of a yardstick, so few that their values stay in a core's cache."""

    place: slice
    row_size: NDArray[np.float64] | None
    """Each row's norm where all elements are finite numbers that count, None elsewhere."""


def _wanted(place: slice, yardstick: Yardstick) -> _Wanted:
    expected = _rows(yardstick.expected.reshape(-1), place, yardstick)
    is_stable = yardstick.unstable is None or not yardstick.unstable.reshape(-1)[place].any()
    is_plain = is_stable and bool(np.isfinite(_rounded(expected, yardstick.type.dtype)).all())
    return _Wanted(place, _norms(np.abs(expected)) if is_plain else None)


@dataclass(frozen=True)
class _Part:
    """How some neighbouring rows of an output differ; `bad` is [rows, length] of them."""

    place: slice
    fault: _Fault
    bad: Mask
    is_extra: bool = False
    """A NaN or infinity that is there, rather than missing."""
    maximum_absolute: float = 0.0
    maximum_relative: float = 0.0
    row_relative: float = 0.0


def _part(
    flat: Array, wanted: _Wanted, yardstick: Yardstick, errors: NDArray[np.float64] | None = None
) -> _Part:
    """Measure one part of an output; its errors go into `errors`, where there are any."""
    place, row_size = wanted.place, wanted.row_size
    found = _rows(flat, place, yardstick)
    expected = _rows(yardstick.expected.reshape(-1), place, yardstick)
    if row_size is not None and np.isfinite(found).all():
        error, size = np.abs(found - expected), np.abs(expected)
    else:
        usable = np.ones(found.shape, bool)
        if yardstick.unstable is not None:
            usable = ~yardstick.unstable.reshape(-1)[place].reshape(found.shape)
        rounded = _rounded(expected, yardstick.type.dtype)
        for fault, (_, mask) in _MASKS.items():
            bad = (mask(found) != mask(rounded)) & usable
            if bad.any():
                return _Part(place, fault, bad, is_extra=bool(mask(found)[bad].any()))
        usable &= np.isfinite(rounded)
        error = np.abs(np.where(usable, found, 0.0) - np.where(usable, expected, 0.0))
        size = np.where(usable, np.abs(expected), 0.0)
        row_size = _norms(size)
    np.copyto(error, 0.0, where=error <= _FLUSHED.get(yardstick.type.dtype, 0.0))
    if errors is not None:
        errors[place] = error.reshape(-1)
    return _held_against(yardstick, place, error, size, row_size)


def _held_against(
    yardstick: Yardstick,
    place: slice,
    error: NDArray[np.float64],
    size: NDArray[np.float64],
    row_size: NDArray[np.float64],
) -> _Part:
    """Hold errors against the tolerance, and those of rows against the bound."""
    # A row of zeros has no relative error; the absolute tolerance holds it.
    relative_rows = np.where(row_size > 0, _ratio(_norms(error), row_size), 0.0)
    allowed = yardstick.tolerance.relative * size
    allowed += yardstick.tolerance.absolute
    if yardstick.slack is not None:
        np.maximum(allowed, yardstick.slack.reshape(-1)[place].reshape(error.shape), out=allowed)
    fault, bad = _Fault.NONE, error > allowed
    if bad.any():
        fault = _Fault.FAR
    elif (crooked := relative_rows > yardstick.bound).any():
        fault, bad = _Fault.CROOKED, np.repeat(crooked, error.shape[1])
    return _Part(
        place,
        fault,
        bad,
        maximum_absolute=float(error.max()),
        maximum_relative=float(_ratio(error, size).max()),
        row_relative=float(relative_rows.max()),
    )


def _rows(flat: Array, place: slice, yardstick: Yardstick) -> NDArray[np.float64]:
    rows: NDArray[np.float64] = flat[place].astype(np.float64, copy=False)
    return rows.reshape(-1, row_length(yardstick.type.shape))


def _words(fault: _Fault, is_extra: bool, row_relative: float, yardstick: Yardstick) -> str:
    """Say what is wrong; nothing where nothing is."""
    if fault is _Fault.NONE:
        return ""
    if fault in _MASKS:
        name = _MASKS[fault][0]
        return f"is {name} where it must not be" if is_extra else f"is not {name} where it must be"
    if fault is _Fault.FAR:
        tolerance = yardstick.tolerance
        return f"is off by more than {tolerance.absolute:g} + {tolerance.relative:g} of its size"
    return (
        f"has a row-relative error of {row_relative:.2g} where "
        f"{yardstick.bound:.2g} is the bound (MLX's own is {yardstick.reference_error:.2g})"
    )


def _rounded(expected: NDArray[np.float64], dtype: Dtype) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        return expected.astype(dtype.numpy).astype(np.float64)


def _ratio(error: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        ratio = error / size
    np.copyto(ratio, 0.0, where=error == 0)
    return ratio


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many neighbouring elements form a row: trailing axes up to `SHORTEST_ROW`."""
    length = 1
    for extent in reversed(shape):
        length *= extent
        if length >= SHORTEST_ROW:
            break
    return max(length, 1)


def _norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean norm of each row, scaled so that no square overflows or vanishes."""
    largest = rows.max(axis=1, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    squares = rows / scale
    np.square(squares, out=squares)
    norms: NDArray[np.float64] = np.sqrt(squares.sum(axis=1)) * scale[:, 0]
    return norms


def row_scale(expected: NDArray[np.float64], dtype: Dtype) -> NDArray[np.float64]:
    """Return for each row the root mean square of its elements that are finite in a format."""
    length = row_length(expected.shape)
    rows = expected.reshape(-1, length)
    step = max(_PART_ELEMENTS // length, 1)

    def norms(start: int) -> NDArray[np.float64]:
        part = rows[start : start + step]
        return _norms(np.where(np.isfinite(_rounded(part, dtype)), np.abs(part), 0.0))

    found = in_parts(norms, range(0, len(rows), step))
    return np.concatenate(found or [np.empty(0)]) / math.sqrt(length)


def for_each_element(values: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return an array of `shape` that holds for each element what `values` hold for its row."""
    return np.repeat(values, row_length(shape)).reshape(shape)


def largest_share(error: NDArray[np.float64], scale: NDArray[np.float64]) -> float:
    """Return the largest error of any element over its row's scale; rows of zeros have none."""
    largest = error.reshape(-1, row_length(error.shape)).max(axis=1)
    shares = np.divide(largest, scale, out=np.zeros_like(scale), where=scale > 0)
    return float(shares.max(initial=0.0))
