"""How wrong an output is: masks, tolerance, row-wise error, and what bounds them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

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


def measure(found: Array, yardstick: Yardstick) -> Deviation:
    """Compare an output with its yardstick; shape and dtype come first, then masks, then values."""
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
    return _measure_float(found, yardstick)


def accepts(yardstick: Yardstick, found: Array) -> bool:
    """Say whether an output is right, and read no further than to where it is not."""
    wanted = yardstick.type
    is_float = wanted.dtype.is_float and wanted.dtype is not Dtype.COMPLEX64
    if not is_float or not found.size or found.shape != wanted.shape:
        return measure(found, yardstick).is_acceptable
    if found.dtype != wanted.dtype.numpy:
        return False
    return all(part.fault is _Fault.NONE for part in _parts(found, yardstick))


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
    deviation = _measure_float(_as_parts(found.astype(np.complex128)), parts)
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


def _measure_float(found: Array, yardstick: Yardstick) -> Deviation:
    parts = list(_parts(found, yardstick))
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
        np.concatenate([part.error for part in parts]).reshape(found.shape),
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
class _Part:
    """How some neighbouring rows of an output differ; arrays are [rows, length] of them."""

    place: slice
    fault: _Fault
    bad: Mask
    is_extra: bool = False
    """A NaN or infinity that is there, rather than missing."""
    error: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    maximum_absolute: float = 0.0
    maximum_relative: float = 0.0
    row_relative: float = 0.0


def _parts(found: Array, yardstick: Yardstick) -> Iterator[_Part]:
    """Measure rows by rows, so that what is computed on the way stays in a core's cache."""
    length = row_length(found.shape)
    step = max(_PART_ELEMENTS // length, 1) * length
    flat, expected = found.reshape(-1), yardstick.expected.reshape(-1)
    for start in range(0, found.size, step):
        place = slice(start, min(start + step, found.size))
        yield _part(
            place,
            flat[place].astype(np.float64).reshape(-1, length),
            expected[place].astype(np.float64).reshape(-1, length),
            yardstick,
        )


def _part(
    place: slice,
    found: NDArray[np.float64],
    expected: NDArray[np.float64],
    yardstick: Yardstick,
) -> _Part:
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
    error[error <= _FLUSHED.get(yardstick.type.dtype, 0.0)] = 0.0
    size = np.where(usable, np.abs(expected), 0.0)
    rows, row_size = _norms(error), _norms(size)
    # A row of zeros has no relative error; the absolute tolerance holds it.
    relative_rows = np.where(row_size > 0, _ratio(rows, row_size), 0.0)
    allowed = yardstick.tolerance.absolute + yardstick.tolerance.relative * size
    if yardstick.slack is not None:
        slack = yardstick.slack.reshape(-1)[place].reshape(found.shape)
        allowed = np.maximum(allowed, slack)
    fault, bad = _Fault.NONE, error > allowed
    if bad.any():
        fault = _Fault.FAR
    elif (crooked := relative_rows > yardstick.bound).any():
        fault, bad = _Fault.CROOKED, np.repeat(crooked, found.shape[1])
    return _Part(
        place,
        fault,
        bad,
        error=error.reshape(-1),
        maximum_absolute=float(error.max()),
        maximum_relative=float(_ratio(error, size).max()),
        row_relative=float(relative_rows.max()),
    )


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
    return np.where(error == 0, 0.0, ratio)


def row_length(shape: tuple[int, ...]) -> int:
    """Return how many neighbouring elements form a row: trailing axes up to `SHORTEST_ROW`."""
    length = 1
    for extent in reversed(shape):
        length *= extent
        if length >= SHORTEST_ROW:
            break
    return max(length, 1)


def row_norms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean norm of each row, scaled so that no square overflows or vanishes."""
    return _norms(values.reshape(-1, row_length(values.shape)))


def _norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = rows.max(axis=1, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    norms: NDArray[np.float64] = np.sqrt(((rows / scale) ** 2).sum(axis=1)) * scale[:, 0]
    return norms


def row_scale(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each element the root mean square of the finite elements in its row."""
    norms = row_norms(np.where(np.isfinite(expected), np.abs(expected), 0.0))
    length = row_length(expected.shape)
    return np.repeat(norms / math.sqrt(length), length).reshape(expected.shape)
