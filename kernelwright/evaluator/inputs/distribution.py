"""The kinds of data that break kernels, each drawn from a seeded generator."""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.dtype import Dtype

Reals = NDArray[np.float64]
_LEAST_THINNED = 4
_OVERWHELMING = 400.0
"""Its exponential overflows float32, unless it has been found to be the maximum."""


class Distribution(StrEnum):
    """A kind of data; its value names the case in a diagnosis."""

    NORMAL = "normal"
    MIXED = "mixed"
    """Every row from another distribution: many cases in one run, for large shapes."""
    OFFSET = "offset"
    """Mean far from zero: catches cancellation in one-pass variances."""
    SMALL = "small"
    LARGE = "large"
    HUGE = "huge"
    """Beyond the range of halves, where the format is wider: catches a detour through them."""
    DENORMAL = "denormal"
    WIDE = "wide range"
    """Magnitudes over many powers of two: catches a drop in precision."""
    CONSTANT = "constant"
    ONE_HOT = "one-hot"
    TIED = "tied"
    ALTERNATING = "alternating"
    MASKED = "masked"
    """Random elements and whole rows at minus infinity."""
    SPECIAL = "special"
    """A few NaN and infinities among ordinary values."""
    SPARSE = "sparse"
    """Exact zeros in every input: unused channels, biases that nobody trained, padding."""
    SHIFTED = "shifted"
    """Mean a hundred deviations from zero: where MLX's two passes hold, one pass never does."""
    DISTANT = "distant"
    """Far below zero, as additive masks are: catches a maximum that starts from a number."""


def draw(
    distribution: Distribution, shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator
) -> Reals:
    """Draw an array of `shape` in float64; the caller rounds it to `dtype`."""
    if distribution is Distribution.MIXED:
        return _mixed(shape, dtype, random)
    return _DRAWS[distribution](shape, dtype, random)


def _normal(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape)


def _offset(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) + 14.0


def _small(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) * 1e-2 - 1e-3


def _large(shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) * (30.0 if dtype is Dtype.FLOAT16 else 300.0)


def _huge(shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) * (200.0 if dtype is Dtype.FLOAT16 else 1e6)


def _denormal(shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator) -> Reals:
    smallest = {Dtype.FLOAT16: 2.0**-16}.get(dtype, 2.0**-128)
    return random.standard_normal(shape) * smallest


def _wide(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) * np.exp2(random.uniform(-12, 6, shape))


def _constant(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    # Not a short binary fraction, so that rounding to fewer bits shows.
    return np.full(shape, random.choice([1.3137, -0.7219, 2.9043]))


def _one_hot(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    """Draw rows of zeros with one number each: by turns a small and an overwhelming one."""
    array = np.zeros(shape)
    if array.size:
        rows = array.reshape(-1, shape[-1] if shape else 1)
        places = random.integers(0, rows.shape[1], len(rows))
        # What a loop misses is most often at an end.
        places[1:2], places[3:4] = rows.shape[1] - 1, 0
        sizes = np.where(np.arange(len(rows)) % 2, _OVERWHELMING, 1.7321)
        rows[np.arange(len(rows)), places] = sizes + random.random(len(rows))
    return array


def _tied(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.choice([-1.1, 0.3, 1.9], shape)


def _alternating(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    signs = np.where(np.arange(int(np.prod(shape))) % 2, -1.0, 1.0).reshape(shape)
    return signs * (1.0 + random.random(shape))


def _masked(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    array = random.standard_normal(shape)
    array[random.random(shape) < 0.3] = -np.inf
    if array.ndim >= 2 and len(array) > 1:
        array[-1] = -np.inf
    return array


def _special(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    array = random.standard_normal(shape)
    if array.size:
        flat = array.reshape(-1)
        # None in the place of another: a case without a NaN shows nobody who loses one.
        places = random.choice(flat.size, 3, replace=flat.size < 3)
        flat[places] = np.nan, np.inf, -np.inf
    return array


def _sparse(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return _thinned(random.standard_normal(shape), 0.3, random)


def _thinned(array: Reals, share: float, random: np.random.Generator) -> Reals:
    """Set a share of the elements to zero; a scalar would wipe out all that it multiplies."""
    if array.size >= _LEAST_THINNED:
        array[random.random(array.shape) < share] = 0.0
    return array


def _shifted(shape: tuple[int, ...], _: Dtype, random: np.random.Generator) -> Reals:
    return random.standard_normal(shape) + float(random.choice([-100.0, 100.0]))


def _distant(shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator) -> Reals:
    # In float16 the last power of two below its range, whose neighbours differ by 32.
    return random.standard_normal(shape) * 64.0 - (33000.0 if dtype is Dtype.FLOAT16 else 2e5)


_DRAWS: dict[Distribution, Callable[[tuple[int, ...], Dtype, np.random.Generator], Reals]] = {
    Distribution.NORMAL: _normal,
    Distribution.OFFSET: _offset,
    Distribution.SMALL: _small,
    Distribution.LARGE: _large,
    Distribution.HUGE: _huge,
    Distribution.DENORMAL: _denormal,
    Distribution.WIDE: _wide,
    Distribution.CONSTANT: _constant,
    Distribution.ONE_HOT: _one_hot,
    Distribution.TIED: _tied,
    Distribution.ALTERNATING: _alternating,
    Distribution.MASKED: _masked,
    Distribution.SPECIAL: _special,
    Distribution.SPARSE: _sparse,
    Distribution.SHIFTED: _shifted,
    Distribution.DISTANT: _distant,
}
_IN_MIXED = (
    Distribution.NORMAL,
    Distribution.OFFSET,
    Distribution.SMALL,
    Distribution.LARGE,
    Distribution.WIDE,
    Distribution.TIED,
    Distribution.ALTERNATING,
    Distribution.SPARSE,
    Distribution.SHIFTED,
    Distribution.ONE_HOT,
)


def _mixed(shape: tuple[int, ...], dtype: Dtype, random: np.random.Generator) -> Reals:
    if len(shape) < 2:
        return _thinned(_wide(shape, dtype, random), 0.1, random)
    row = shape[-1]
    array = np.empty((int(np.prod(shape[:-1])), row))
    kinds = random.permutation(len(_IN_MIXED))
    for index, part in enumerate(np.array_split(np.arange(len(array)), len(kinds))):
        if len(part):
            kind = _IN_MIXED[kinds[index]]
            array[part] = _DRAWS[kind]((len(part), row), dtype, random)
    return array.reshape(shape)
