"""How wrong an output is: masks, tolerance, row-wise error, and what bounds them."""

import math
from dataclasses import dataclass

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
    return _measure_float(found.astype(np.float64), yardstick)


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


def _measure_float(found: NDArray[np.float64], yardstick: Yardstick) -> Deviation:
    expected = yardstick.expected.astype(np.float64)
    ignored = yardstick.unstable if yardstick.unstable is not None else np.zeros(found.shape, bool)
    rounded = _rounded(expected, yardstick.type.dtype)
    if problem := _mask_problem(found, rounded, ignored):
        return problem
    usable = np.isfinite(rounded) & ~ignored
    error = np.abs(np.where(usable, found, 0.0) - np.where(usable, expected, 0.0))
    error = np.where(error <= _FLUSHED.get(yardstick.type.dtype, 0.0), 0.0, error)
    size = np.where(usable, np.abs(expected), 0.0)
    rows, row_size = row_norms(error), row_norms(size)
    # A row of zeros has no relative error; the absolute tolerance holds it.
    relative_rows = np.where(row_size > 0, _ratio(rows, row_size), 0.0)
    tolerance = yardstick.tolerance
    allowed = tolerance.absolute + tolerance.relative * size
    far = error > (allowed if yardstick.slack is None else np.maximum(allowed, yardstick.slack))
    crooked = relative_rows > yardstick.bound
    problem_text, bad = "", far
    if far.any():
        problem_text = (
            f"is off by more than {tolerance.absolute:g} + {tolerance.relative:g} of its size"
        )
    elif crooked.any():
        problem_text = (
            f"has a row-relative error of {relative_rows.max():.2g} where "
            f"{yardstick.bound:.2g} is the bound (MLX's own is {yardstick.reference_error:.2g})"
        )
        bad = _spread(crooked, found.shape)
    return Deviation(
        problem_text,
        bad,
        float(error.max()),
        float(_ratio(error, size).max()),
        float(relative_rows.max()),
        yardstick.bound,
        error,
    )


def _rounded(expected: NDArray[np.float64], dtype: Dtype) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        return expected.astype(dtype.numpy).astype(np.float64)


def _mask_problem(
    found: NDArray[np.float64], expected: NDArray[np.float64], ignored: Mask
) -> Deviation | None:
    for name, mask in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
        bad = (mask(found) != mask(expected)) & ~ignored
        if bad.any():
            extra = bool(mask(found)[bad].any())
            problem = (
                f"is {name} where it must not be" if extra else f"is not {name} where it must be"
            )
            return Deviation(problem, bad, math.inf, math.inf, math.inf)
    return None


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
    rows = values.reshape(-1, row_length(values.shape))
    largest = rows.max(axis=1, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    norms: NDArray[np.float64] = np.sqrt(((rows / scale) ** 2).sum(axis=1)) * scale[:, 0]
    return norms


def row_scale(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each element the root mean square of the finite elements in its row."""
    norms = row_norms(np.where(np.isfinite(expected), np.abs(expected), 0.0))
    length = row_length(expected.shape)
    return np.repeat(norms / math.sqrt(length), length).reshape(expected.shape)


def _spread(rows: Mask, shape: tuple[int, ...]) -> Mask:
    return np.repeat(rows, row_length(shape)).reshape(shape)
