"""Draws the values of each kind in float32, row by row, from a seeded generator."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.distribution import NOT_FINITE, Distribution
from kernelwright.evaluator.inputs.far_rows import (
    lane_distance,
    limits_of,
    place_beside_nan,
    place_near_ends,
)
from kernelwright.ir.graph.dtype import Dtype

Values = NDArray[np.float32]
Random = np.random.Generator
_LEAST_THINNED = 4
_OVERWHELMING = 400.0
"""Its exponential overflows float32, unless it has been found to be the maximum."""
_LATTICES = tuple(
    np.array(numbers, np.float32)
    for numbers in (
        np.arange(-16, 17) / 4,
        np.arange(0, 5) / 4,
        np.arange(-4, 5) / 4,
        np.arange(-64, 65),
        [sign * 2.0**power for power in range(-6, 7) for sign in (1, -1)],
    )
)
"""Small exact numbers, most of whose sums, differences and products are such."""
_MOST_TWINS = 256
"""Rows of a case that hold a number in one lane twice."""
_OF_256 = 77
"""Of 256: a share of three tenths."""
_MASK_TURNS = 4


def draw(
    distribution: Distribution, shape: tuple[int, ...], dtype: Dtype, random: Random
) -> Values:
    """Draw an array of `shape` in float32; the caller rounds it to `dtype`."""
    return _in_rows(draw_rows, distribution, shape, dtype, random)


def draw_normal_beside(
    distribution: Distribution, shape: tuple[int, ...], dtype: Dtype, random: Random
) -> Values:
    """Draw an ordinary array while another input is of a kind, as `draw_beside` draws rows."""
    return _in_rows(draw_beside, distribution, shape, dtype, random)


def _in_rows(
    rows: Callable[[Distribution, int, int, Dtype, Random], Values],
    distribution: Distribution,
    shape: tuple[int, ...],
    dtype: Dtype,
    random: Random,
) -> Values:
    length = shape[-1] if shape else 1
    count = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
    if not count * length:
        return np.zeros(shape, np.float32)
    return rows(distribution, count, length, dtype, random).reshape(shape)


def draw_rows(
    distribution: Distribution, count: int, length: int, dtype: Dtype, random: Random
) -> Values:
    """Draw `count` rows of one kind, [count, length]."""
    return _DRAWS[distribution](count, length, dtype, random)


def draw_beside(
    kind: Distribution, count: int, length: int, dtype: Dtype, random: Random
) -> Values:
    """Draw `count` ordinary rows for an input while another one is of a kind, [count, length].

    Where that one is not finite, some rows and a column are zero, and some rows have one number,
    on the diagonal: a program that skips their products loses a NaN.
    """
    values = draw_rows(Distribution.NORMAL, count, length, dtype, random)
    if kind is Distribution.FADING:
        values *= _FADING_SCORES
    if kind in NOT_FINITE and count > 1:
        values[3::4] *= np.arange(3, count, 4)[:, None] % length == np.arange(length)
        values[1::4] = 0.0
        if min(count, length) >= _LEAST_THINNED:
            values[:, 1] = 0.0
    return values


def as_shares(values: Values) -> Values:
    """Map positive numbers to numbers between zero and one, in their order."""
    bounded = np.minimum(values, np.float32(1 << 20))
    return np.asarray(bounded / (1 + bounded))


def _normal(count: int, length: int, _: Dtype, random: Random) -> Values:
    return random.standard_normal((count, length), np.float32)


def _scaled(count: int, length: int, random: Random, *, by: float, plus: float = 0.0) -> Values:
    values = random.standard_normal((count, length), np.float32)
    values *= np.float32(by)
    values += np.float32(plus)
    return values


def _offset(count: int, length: int, _: Dtype, random: Random) -> Values:
    return _scaled(count, length, random, by=1.0, plus=14.0)


def _small(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    least = -2.5 if dtype is Dtype.FLOAT16 else -4.0
    values = _scaled(count, length, random, by=1.0, plus=-0.1)
    # The first as large as any: a lone row of 1e-4 would be lost beside an epsilon.
    sizes = 10.0 ** random.uniform(least, -1.7, (count, 1)).astype(np.float32)
    sizes[:1] = 1e-2
    if dtype is not Dtype.FLOAT16:
        # Where a sum of squares meets an epsilon that is there for rows of zeros alone.
        far = sizes[1::2]
        far[...] = 10.0 ** random.uniform(-9.0, least, far.shape)
    values *= sizes
    return values


def _large(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    return _scaled(count, length, random, by=30.0 if dtype is Dtype.FLOAT16 else 300.0)


def _huge(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw rows whose squares halves do not hold, and whose fourth powers floats do not."""
    if dtype is Dtype.FLOAT16:
        return _scaled(count, length, random, by=200.0)
    values = _scaled(count, length, random, by=1e6)
    far = values[1::2]
    far *= 10.0 ** random.uniform(0.0, 6.0, (len(far), 1)).astype(np.float32)
    return values


def _denormal(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw rows of numbers below the least normal one, and of that one or the least half alone."""
    is_half = dtype is Dtype.FLOAT16
    values = _scaled(count, length, random, by=2.0**-16 if is_half else 2.0**-128)
    alone = values[1::2]
    alone[...] = 0.0
    places = random.integers(0, length, len(alone))
    # Of halves no GPU flushes the denormals.
    alone[np.arange(len(alone)), places] = 2.0**-24 if is_half else 2.0**-126
    return values


def _wide(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _normal(count, length, dtype, random)
    exponents = random.random((count, length), np.float32)
    exponents *= 18
    exponents -= 12
    values *= np.exp2(exponents, out=exponents)
    return values


def _constant(count: int, length: int, _: Dtype, random: Random) -> Values:
    # Not short binary fractions, so that rounding to fewer bits shows.
    choices = np.array([1.3137, -0.7219, 2.9043], np.float32)
    first = random.integers(3)
    return np.full((count, length), choices[first], np.float32)


def _one_hot(count: int, length: int, _: Dtype, random: Random) -> Values:
    """Draw rows of zeros with one number each: by turns a small and an overwhelming one."""
    rows = np.zeros((count, length), np.float32)
    places = random.integers(0, length, count)
    # What a loop misses is most often at an end.
    places[1:2], places[3:4] = length - 1, 0
    sizes = np.where(np.arange(count) % 2, _OVERWHELMING, 1.7321)
    rows[np.arange(count), places] = sizes + random.random(count)
    return rows


def _tied(count: int, length: int, _: Dtype, random: Random) -> Values:
    table = np.array([-1.1, 0.3, 1.9], np.float32)
    return np.asarray(table[random.integers(0, 3, (count, length), np.uint8)])


def _alternating(count: int, length: int, _: Dtype, random: Random) -> Values:
    values = random.random((count, length), np.float32)
    values += 1
    values.reshape(-1)[::2] *= -1
    return -values


def _sorted(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = np.sort(_normal(count, length, dtype, random), axis=1)
    values[1::2] = values[1::2, ::-1]
    return values


def _sprinkled(values: Values, value: float, random: Random) -> Values:
    """Set three tenths of the elements."""
    values[random.integers(0, 256, values.shape, np.uint8) < _OF_256] = value
    return values


def _hidden(values: Values, value: float, random: Random) -> Values:
    """Set what a mask hides, by turns of rows: all but one or two, three tenths, an end, a start.

    Where one or two are left, whole strips, tiles and lanes of a row hold nothing but `value`.
    """
    count, length = values.shape
    if length < _LEAST_THINNED:
        return _sprinkled(values, value, random)
    first = 0 if count >= _MASK_TURNS else int(random.integers(_MASK_TURNS))
    turn = ((first + np.arange(count)) % _MASK_TURNS)[:, None]
    column, place = np.arange(length), random.integers(1, length, (count, 1))
    left = (column == place) | (column == random.integers(0, length, (count, 1)))
    sprinkled = random.integers(0, 256, values.shape, np.uint8) < _OF_256
    by_turn = (~left, sprinkled, column >= place, column < place)
    is_hidden = np.select([turn == number for number in range(_MASK_TURNS)], by_turn)
    values[is_hidden.astype(bool)] = value
    return values


def _masked(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _hidden(_normal(count, length, dtype, random), -np.inf, random)
    if count > 1:
        values[-1] = -np.inf
    return values


def _special(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _normal(count, length, dtype, random)
    flat = values.reshape(-1)
    # None in the place of another: a case without a NaN shows nobody who loses one.
    places = random.choice(flat.size, 3, replace=flat.size < 3)
    flat[places] = np.nan, np.inf, -np.inf
    return values


def _nan(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Put one NaN into each row: anywhere, the first, the last; every second one negative.

    Every fourth row has two, whole simdgroups apart.
    """
    values = _normal(count, length, dtype, random)
    row = np.arange(count)
    places = np.where(row % 3 == 1, 0, random.integers(0, length, count))
    places[row % 3 == 2] = length - 1
    values[row, places] = np.where(row % 2, -np.nan, np.nan)
    for pair in values[3::4][:_MOST_TWINS]:
        pair[np.isnan(pair)] = 0.0
        place_twins(pair, np.nan, random)
    return values


def place_twins(row: Values, value: float, random: Random) -> None:
    """Put a value into a row twice, whole simdgroups apart where it is that long."""
    apart = lane_distance(len(row), random)
    first = int(random.integers(0, len(row) - apart))
    row[first], row[first + apart] = value, value


def _infinite(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Put an infinity at an end of each row, both into every fifth, and fill the last with one."""
    values = _normal(count, length, dtype, random)
    row = np.arange(count)
    values[row, np.where(row % 4 < 2, 0, length - 1)] = np.where(row % 2, -np.inf, np.inf)
    values[4::5, 0], values[4::5, -1] = np.inf, -np.inf
    if count > 1:
        values[-1] = np.inf
    return values


def _beside_nan(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _normal(count, length, dtype, random)
    place_beside_nan(values[:_MOST_TWINS], dtype, random)
    return values


def _near_ends(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _normal(count, length, dtype, random)
    place_near_ends(values[:_MOST_TWINS], dtype, random)
    return values


def _zero(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw rows of zeros, of negative zeros, and of both among ordinary values."""
    values = _normal(count, length, dtype, random)
    values[2::3] = 0.0
    values[1::3] = -0.0
    mixed = _sprinkled(_sprinkled(values[0::3], 0.0, random), -0.0, random)
    values[0::3] = mixed
    return values


def _extreme(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw rows with a few of the largest and smallest numbers, and rows of huge and tiny ones."""
    values = _normal(count, length, dtype, random)
    largest, smallest = limits_of(dtype)
    ends = np.array([largest, -largest, smallest, -smallest], np.float32)
    rows = np.arange(0, count, 3)
    for place in (random.integers(0, length, len(rows)) for _ in range(2)):
        values[rows, place] = random.choice(ends, len(rows))
    values[1::3] *= np.float32(512.0 if dtype is Dtype.FLOAT16 else 1e30)
    # Below what a maximum is often started with.
    values[4::6] = -np.abs(values[4::6]) * np.float32(32.0 if dtype is Dtype.FLOAT16 else 1e3)
    values[2::3] *= np.float32(max(1e-30, smallest / 8))
    return values


def _sentinel(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw masked rows with the lowest number, and -1e9, in place of minus infinity."""
    values = _normal(count, length, dtype, random)
    largest, _ = limits_of(dtype)
    values[0::3] = _hidden(values[0::3], -largest, random)
    values[1::3] = _hidden(values[1::3], -min(1e9, largest / 4), random)
    values[2::3] = -largest
    return values


def _sparse(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _normal(count, length, dtype, random)
    # A scalar would wipe out all that it multiplies.
    return _sprinkled(values, 0.0, random) if values.size >= _LEAST_THINNED else values


def _shifted(count: int, length: int, _: Dtype, random: Random) -> Values:
    return _scaled(count, length, random, by=1.0, plus=float(random.choice([-100.0, 100.0])))


def _lattice(count: int, length: int, _: Dtype, random: Random) -> Values:
    """Draw rows of small exact numbers, by turns of several sets, and of zeros."""
    values = np.zeros((count, length), np.float32)
    for turn, numbers in enumerate(_LATTICES):
        rows = values[turn :: len(_LATTICES) + 1]
        rows[...] = random.choice(numbers, rows.shape)
    return values


def _cut(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw numbers between 1 and 2 that are all cut down where they are cut to fewer bits."""
    values = _short(count, length, dtype, random)
    if dtype in _SHORT_STEPS:
        steps, grid = _SHORT_STEPS[dtype]
        beyond = np.array([1, grid // 4 + 1], np.float32) / np.float32(steps)
        values += random.choice(beyond, values.shape)
    return values


def _signs(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    values = _cut(count, length, dtype, random)
    negative = random.integers(0, 2, values.shape, np.int8) > 0
    return np.where(negative, -_short(count, length, dtype, random), values)


def _short(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw numbers between 1 and 2 that bfloat16 holds; ones where the values are of that type."""
    steps, grid = _SHORT_STEPS.get(dtype, (1, 1))
    places = random.integers(0, steps // grid, (count, length), np.int16).astype(np.float32)
    return np.asarray(1 + places * np.float32(grid / steps))


def _faint(count: int, length: int, _: Dtype, random: Random) -> Values:
    return _scaled(count, length, random, by=_FAINT_NORM / max(count * length, 1) ** 0.5)


def _distant(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    # In float16 the last power of two below its range, whose neighbours differ by 32.
    far = 33000.0 if dtype is Dtype.FLOAT16 else 2e5
    return _scaled(count, length, random, by=64.0, plus=-far)


def _fading(count: int, length: int, dtype: Dtype, random: Random) -> Values:
    """Draw rows of every size above one, in which a weight of 2^-25 still shows.

    Neighbours are of all sizes, and most are small: a large one shows where its weight is cut off
    and those that weigh more are not as large.
    """
    spread = (random.random() + np.arange(count)[:, None] * _GOLDEN_RATIO) % 1.0
    powers = spread**2 * (12.0 if dtype is Dtype.FLOAT16 else 90.0)
    return np.asarray(_normal(count, length, dtype, random) * np.exp2(powers), np.float32)


def place_last_infinity(values: Values, random: Random) -> None:
    """Make one column of the last of several rows that are weighted and added up infinite.

    What fills a tile behind the last row has no weight, and must not be that row again: of the
    infinity that the last query sees it would make NaN. Results of others are nobody's fault.
    """
    if values.ndim > 1 and values.size:
        last = values[..., -1, :].reshape(-1, values.shape[-1])
        columns = random.integers(values.shape[-1], size=len(last))
        last[np.arange(len(last)), columns] = np.inf
        values[..., -1, :] = last.reshape(values[..., -1, :].shape)


_GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Multiples of it leave remainders that are spread evenly, however few follow each other."""
_FADING_SCORES = np.float32(3.0)
"""Of queries and of keys: scores of some nine deviations, weights down to 2^-40."""
_FAINT_NORM = 1 / 8
_SHORT_STEPS = {Dtype.FLOAT32: (2048, 16), Dtype.FLOAT16: (1024, 8)}
"""In how many steps a format one narrower, and bfloat16, divide what lies between 1 and 2: numbers
one step or a few above one of bfloat16's are rounded down by both."""
_DRAWS: dict[Distribution, Callable[[int, int, Dtype, Random], Values]] = {
    Distribution.NORMAL: _normal,
    Distribution.MIXED: _normal,
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
    Distribution.SORTED: _sorted,
    Distribution.MASKED: _masked,
    Distribution.SPECIAL: _special,
    Distribution.NAN: _nan,
    Distribution.INFINITE: _infinite,
    Distribution.ZERO: _zero,
    Distribution.EXTREME: _extreme,
    Distribution.SENTINEL: _sentinel,
    Distribution.SPARSE: _sparse,
    Distribution.SHIFTED: _shifted,
    Distribution.DISTANT: _distant,
    Distribution.PAIRED: _normal,
    Distribution.BEHIND_MASK: _normal,
    Distribution.LITERALS: _normal,
    Distribution.LONE: _normal,
    Distribution.LATTICE: _lattice,
    Distribution.CUT: _cut,
    Distribution.SIGNS: _signs,
    Distribution.FAINT: _faint,
    Distribution.STRUCTURED: _normal,
    Distribution.BOUNDARY: _normal,
    Distribution.BESIDE_NAN: _beside_nan,
    Distribution.NEAR_ENDS: _near_ends,
    Distribution.FADING: _fading,
}


def shares(
    items: Sequence[Distribution], places: NDArray[np.intp]
) -> Iterator[tuple[Distribution, NDArray[np.intp]]]:
    """Deal places to kinds, evenly; a kind may get none."""
    for kind, part in zip(items, np.array_split(places, len(items)), strict=True):
        if len(part):
            yield kind, part
