"""Rows of floats as users have them: ramps, probabilities, images, padding, filters, orders."""

from collections.abc import Callable

import numpy as np

from kernelwright.evaluator.inputs.draw import Random, Values, place_twins

RowDraw = Callable[[int, int, Random], Values]
"""Draws `count` rows of `length` numbers."""
_LONGEST_RAMP = 1 << 11
"""Whole numbers that every format holds, or holds nearly."""
_LANES = 32
_MOST_EXPONENT = 12
_NEAREST, _NEAR_STRIDE = 12, 5
"""In how many binary steps rows come near to what they nearly are, and by how many at once."""
_LEAST_COUNTED = 10.0
"""Of exponentials that are 22,000 times smaller together than the largest a float32 sum shows."""


def _normal(count: int, length: int, random: Random) -> Values:
    return random.standard_normal((count, length), np.float32)


def _anywhere(random: Random) -> int:
    """Return from where rows count, of which a case may have few."""
    return int(random.integers(1 << 10))


def _number(count: int, length: int) -> Values:
    ramp = (np.arange(length) % _LONGEST_RAMP).astype(np.float32)
    return np.repeat(ramp[None], count, axis=0)


def _ramp(count: int, length: int, random: Random) -> Values:
    return _number(count, length)


def _centred_ramp(count: int, length: int, random: Random) -> Values:
    return _number(count, length) - np.float32((min(length, _LONGEST_RAMP) - 1) / 2)


def _steps(count: int, length: int, random: Random) -> Values:
    sizes = random.choice(np.array([-1, -0.5, 0.125, 0.5, 2], np.float32), (count, 1))
    return np.asarray(sizes * _number(count, length) + random.integers(-8, 8, (count, 1)), "f4")


def _unit(count: int, length: int, random: Random) -> Values:
    return random.random((count, length), np.float32) * np.float32(0.998)


def _probabilities(count: int, length: int, random: Random) -> Values:
    values = random.random((count, length), np.float32) + np.float32(1e-3)
    return np.asarray(values / values.sum(1, keepdims=True))


def _log_probabilities(count: int, length: int, random: Random) -> Values:
    return np.log(_probabilities(count, length, random))


def _bytes(count: int, length: int, random: Random) -> Values:
    values = random.integers(0, 256, (count, length)).astype(np.float32)
    # An image spans its range.
    for row in values:
        ends = random.permutation(length)[:2]
        row[ends] = (0.0, 255.0)[: len(ends)]
    return values


def _palindromes(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    half = length // 2
    values[:, length - half :] = values[:, :half][:, ::-1]
    return values


def _periodic(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    for row in values:
        period = int(random.choice((2, 3, 4, 8, 16)))
        row[:] = np.resize(row[:period].copy(), length)
    return values


def _positive(count: int, length: int, random: Random) -> Values:
    return np.abs(_normal(count, length, random)) + np.float32(0.125)


def _negative(count: int, length: int, random: Random) -> Values:
    """Draw rows below zero, each of another distance from it."""
    apart = np.exp2(random.uniform(-4, 2.5, (count, 1))).astype(np.float32)
    return np.asarray(-np.abs(_normal(count, length, random)) - apart)


def _all_but_one_negative(count: int, length: int, random: Random) -> Values:
    values = _negative(count, length, random)
    row = np.arange(count)
    values[row, random.integers(0, length, count)] *= np.where(row % 2, 1e-3, -1).astype("f4")
    return values


def _powers(count: int, length: int, random: Random) -> Values:
    exponents = np.maximum(np.arange(length) - min(length // 2, 100), -120)
    return np.repeat(np.exp2(np.minimum(exponents, 100), dtype=np.float32)[None], count, axis=0)


def _bounded_powers(count: int, length: int, random: Random) -> Values:
    exponents = np.maximum(np.arange(length) - length + _MOST_EXPONENT, -120)
    rows = np.repeat(np.exp2(exponents, dtype=np.float32)[None], count, axis=0)
    return rows if random.integers(2) else rows[:, ::-1].copy()


def _hot(count: int, length: int, random: Random) -> Values:
    values = np.zeros((count, length), np.float32)
    for number, row in enumerate(values, _anywhere(random)):
        row[random.permutation(length)[: 1 + number % 3]] = 1.0
    return values


def _two_hot(count: int, length: int, random: Random) -> Values:
    values = np.zeros((count, length), np.float32)
    for row in values:
        row[random.permutation(length)[:2]] = 1.0
    return values


def padded(count: int, length: int, random: Random) -> Values:
    """Draw rows with zeros before or after, of numbers that go through all that there are."""
    values = _normal(count, length, random)
    start, order = int(random.integers(0, length + 1)), random.integers(0, 2, count)
    for number, row in enumerate(values):
        zeros = (start + number) % (length + 1)
        row[slice(0, zeros) if order[number] else slice(length - zeros, length)] = 0.0
    return values


def padded_batch(count: int, length: int, random: Random) -> Values:
    """Draw rows of which the last are zero: half of them, or as many as are drawn."""
    values = _normal(count, length, random)
    values[count // 2 if random.integers(2) else int(random.integers(1, count + 1)) :] = 0.0
    return values


def _slightly_padded(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    for number, row in enumerate(values, _anywhere(random)):
        zeros = 1 + number // 2 % 4
        row[slice(0, zeros) if number % 2 else slice(max(length - zeros, 0), length)] = 0.0
    return values


def _half_padded(count: int, length: int, random: Random) -> Values:
    values, half = _normal(count, length, random), length // 2
    values[0::2, :half] = 0.0
    values[1::2, length - half :] = 0.0
    return values


def _nearly_empty(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    for number, row in enumerate(values, _anywhere(random)):
        row[1 + number % 33 :] = 0.0
    return values


def _rising(count: int, length: int, random: Random) -> Values:
    return np.sort(_normal(count, length, random), axis=1)


def _falling(count: int, length: int, random: Random) -> Values:
    return np.asarray(_rising(count, length, random)[:, ::-1].copy())


def _peak(count: int, length: int, random: Random) -> Values:
    """Draw rows that rise to the middle and fall from there, by turns from the next place on."""
    far = np.abs(np.arange(length) - length // 2)
    rows = np.repeat((length // 2 - far).astype(np.float32)[None], count, axis=0)
    rows[1::2] = np.minimum(np.arange(length), np.arange(length)[::-1])
    return np.asarray(rows % _LONGEST_RAMP)


def _normalised(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random).astype(np.float64)
    values -= values.mean(1, keepdims=True)
    return np.asarray(values / np.sqrt((values**2).mean(1, keepdims=True) + 1e-12), np.float32)


def _steps_away(count: int, random: Random) -> Values:
    """Return how far each row is from what it nearly is, [count, 1]: 2^-6 to 2^-18 by turns."""
    turns = (_anywhere(random) + np.arange(count)) * _NEAR_STRIDE % _NEAREST
    return np.exp2(-6.0 - turns - random.random(count)).astype(np.float32)[:, None]


def _scaled(rows: Values, random: Random) -> Values:
    """Return rows each larger or smaller by a little.

    A kernel that takes what nearly holds for what holds is off there, and nowhere else.
    """
    sign = random.choice(np.array([-1, 1], np.float32), (len(rows), 1))
    return np.asarray(rows * (1 + sign * _steps_away(len(rows), random)), np.float32)


def _nearly_constant(count: int, length: int, random: Random) -> Values:
    """Draw rows of one number and noise, or of that number but for one place."""
    values = np.repeat(_normal(count, 1, random), length, axis=1)
    away = _steps_away(count, random) * np.abs(_normal(count, length, random))
    row = np.arange(0, count, 2)
    places = random.integers(0, length, len(row))
    lone = away[row, places]
    away[row] = 0.0
    away[row, places] = lone
    return np.asarray(values - away, np.float32)


def _nearly_normalised(count: int, length: int, random: Random) -> Values:
    values = _scaled(_normalised(count, length, random), random)
    values[1::2] += _steps_away(len(values[1::2]), random)
    return values


def _nearly_shares(count: int, length: int, random: Random) -> Values:
    """Draw rows whose sum is nearly one."""
    return _scaled(_probabilities(count, length, random), random)


def _nearly_unit(count: int, length: int, random: Random) -> Values:
    """Draw rows whose sum of squares is nearly one."""
    values = _normal(count, length, random)
    sizes = np.sqrt(np.square(values).sum(1, keepdims=True))
    return _scaled(values / np.maximum(sizes, np.float32(1e-3)), random)


def _balanced(count: int, length: int, random: Random) -> Values:
    """Draw rows whose sums are exactly zero."""
    half = length // 2
    short = random.integers(1, 65, (count, half)).astype(np.float32) / np.float32(8)
    values = np.zeros((count, length), np.float32)
    values[:, :half], values[:, half : 2 * half] = short, -short
    return random.permuted(values, axis=1)


def _zeros_and_ones(count: int, length: int, random: Random) -> Values:
    rows = np.repeat((np.arange(length) % 2).astype(np.float32)[None], count, axis=0)
    return random.permuted(rows, axis=1)


def _signs(count: int, length: int, random: Random) -> Values:
    return random.choice(np.array([-1, 1], np.float32), (count, length))


def _runs(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    for row in values:
        run = int(random.choice((2, 4, 8, 16)))
        row[:] = np.repeat(row[: -(-length // run)].copy(), run)[:length]
    return values


def _rotated(count: int, length: int, random: Random) -> Values:
    values = _rising(count, length, random)
    for row in values:
        row[:] = np.roll(row, int(random.integers(0, length)))
    return values


def _one_descent(count: int, length: int, random: Random) -> Values:
    """Draw rows that rise but at one or two places, which go through all of them."""
    values, start = _rising(count, length, random), int(random.integers(0, length))
    for number, row in enumerate(values):
        for extra in range(1 + (start + number) % 2):
            place = (start + number + extra * (2 + number % 37)) % length
            row[place] = row[0] - (place + 1)
    return values


def _tied(count: int, length: int, random: Random) -> Values:
    """Draw rows whose greatest number stands twice, whole simdgroups apart, or is nearly met."""
    values = _normal(count, length, random)
    top = values.max(initial=0) + np.float32(1.0)
    for number, row in enumerate(values, _anywhere(random)):
        apart = _LANES * (1 + number // 5 % max(length // _LANES - 1, 1))
        apart = apart if apart < length else 1
        place = int(random.integers(0, max(length - apart, 1)))
        row[(place + apart) % length] = top
        row[place] = np.nextafter(top, np.float32(0)) if number % 3 == 2 else top
    return values


def _constant_but_one(count: int, length: int, random: Random) -> Values:
    values = np.repeat(_normal(count, 1, random), length, axis=1)
    row = np.arange(count)
    places = np.where(row % 2, random.integers(0, length, count), length // 2)
    values[row, places] += np.float32(1.0)
    return values


def _octave(count: int, length: int, random: Random) -> Values:
    """Draw rows from a number to twice that, both of which they hold."""
    values = np.float32(1) + _unit(count, length, random)
    for row in values:
        row[random.permutation(length)[:2]] = (1.0, 2.0)[: min(length, 2)]
    values *= random.choice(np.array([0.25, 1, 3], np.float32), (count, 1))
    return values


def _ascending_ties(count: int, length: int, random: Random) -> Values:
    """Draw rows that rise in steps, most of whose numbers stand several times."""
    whole = random.integers(0, max(length // 3, 2), (count, length)).astype(np.float32)
    return np.asarray(np.sort(whole, axis=1) / np.float32(4))


def _fractions(count: int, length: int, random: Random) -> Values:
    """Draw rows of what people write down: thirds, tenths, percent, a range in equal parts."""
    written = np.array([k / n for n in (3, 10, 7, 100, 6) for k in range(n + 1)], np.float32)
    values = random.choice(written, (count, length))
    values[1::2] = np.linspace(0, 1, length, dtype=np.float32)
    return values


def _turns(count: int, length: int, random: Random) -> Values:
    """Draw rows of angles, in degrees and in parts of pi by turns."""
    parts = random.integers(-24, 25, (count, length)).astype(np.float32)
    sizes = np.where(np.arange(count) % 2, np.pi / 12, 15).astype(np.float32)
    return np.asarray(parts * sizes[:, None])


def _low_but_one(count: int, length: int, random: Random) -> Values:
    values = -(np.float32(1.25) + np.abs(_normal(count, length, random)))
    values[np.arange(count), random.integers(0, length, count)] = np.float32(-5e-4)
    return values


def _whole(count: int, length: int, random: Random) -> Values:
    return random.integers(-9, 10, (count, length)).astype(np.float32)


def _late_jump(count: int, length: int, random: Random) -> Values:
    """Draw rows that lie close until one number far above, as sums that are rescaled meet it."""
    values = np.float32(0.01) * _normal(count, length, random)
    jumps = random.choice(np.array([2, 4.5, 8.125, 8.5, 12], np.float32), count)
    late = length - 1 - random.integers(0, max(length // 4, 1), count)
    values[np.arange(count), late] += jumps
    return values


def _far_below_one(count: int, length: int, random: Random) -> Values:
    """Draw rows whose first, last or other number is far above all others, which lie together.

    As far as exponentials of all others still count together: each row takes another distance.
    """
    farthest = np.log(length) + _LEAST_COUNTED
    apart = 2 + (farthest - 2) * (np.arange(count) + random.random()) / count
    values = np.float32(0.25) * _unit(count, length, random)
    values -= random.permutation(apart).astype(np.float32)[:, None]
    places = random.integers(0, length, count)
    places[0::3], places[1::3] = 0, length - 1
    values[np.arange(count), places] = np.float32(0.25)
    return values


NEAR_ROWS: tuple[RowDraw, ...] = (
    *(_nearly_constant, _nearly_normalised, _nearly_shares, _nearly_unit),
)
"""Rows of which something holds nearly that a kernel may take a short cut for."""
REAL_ROWS: tuple[RowDraw, ...] = (
    *(_ramp, _centred_ramp, _steps, _unit, _probabilities, _log_probabilities, _bytes),
    *(_palindromes, _periodic, _positive, _negative, _all_but_one_negative, _bounded_powers),
    *(_hot, _two_hot, padded, _slightly_padded, _half_padded, _nearly_empty, _rising, _falling),
    *(_peak, _normalised, _balanced, _zeros_and_ones, _signs, _runs, _rotated, _one_descent),
    *(_tied, _constant_but_one, _octave, _ascending_ties, _fractions, _turns, _low_but_one, _whole),
    *(_late_jump, _far_below_one, *NEAR_ROWS),
)
"""Rows whose results are ordinary numbers."""


def _two_nan(count: int, length: int, random: Random) -> Values:
    """Draw rows of two NaN, by turns anywhere and whole simdgroups apart: one lane meets both."""
    values = _normal(count, length, random)
    for number, row in enumerate(values, _anywhere(random)):
        row[random.permutation(length)[:2]] = np.nan
        if number % 2:
            row[...] = np.where(np.isnan(row), 0, row)
            place_twins(row, np.nan, random)
    return values


def _nan_tail(count: int, length: int, random: Random) -> Values:
    """Draw rows that are NaN from a place on, or up to one."""
    values = _normal(count, length, random)
    for number, row in enumerate(values, _anywhere(random)):
        place = int(random.integers(0, max(length // 2, 1)))
        row[slice(place, None) if number % 3 else slice(None, place + 1)] = np.nan
    return values


def _several_infinite(count: int, length: int, random: Random) -> Values:
    values = _normal(count, length, random)
    for row in values:
        row[random.permutation(length)[: random.integers(2, 6)]] = np.inf
    return values


def _hidden_half(count: int, length: int, random: Random) -> Values:
    values, half = _normal(count, length, random), length // 2
    values[0::2, :half] = -np.inf
    values[1::2, length - half :] = -np.inf
    return values


SPECIAL_ROWS: tuple[RowDraw, ...] = (
    *(_two_nan, _nan_tail, _several_infinite, _hidden_half, _powers),
)
"""Rows that would flood an output of which they are not a row alone."""


def draw_structured(count: int, length: int, random: Random) -> Values:
    """Draw rows of all structures in turn, from a drawn one on."""
    return mixed_rows(REAL_ROWS, count, length, random)


def mixed_rows(
    draws: tuple[RowDraw, ...], count: int, length: int, random: Random, first: int | None = None
) -> Values:
    """Draw rows whose structures follow each other, from the given one on or a drawn one."""
    start = int(random.integers(len(draws))) if first is None else first
    values = np.empty((count, length), np.float32)
    for turn, draw in enumerate(draws):
        places = np.arange((turn - start) % len(draws), count, len(draws))
        if len(places):
            values[places] = draw(len(places), length, random)
    return values


def filters(length: int, random: Random) -> tuple[Values, ...]:
    """Return short vectors that weigh neighbours: means, edges, the identity, ramps."""
    one = np.zeros(length)
    one[length // 2] = 1.0
    binomial = np.ones(1)
    for _ in range(length - 1):
        binomial = np.convolve(binomial, [1.0, 1.0])
    slope = np.arange(length) - (length - 1) / 2
    second = -np.ones(length)
    second[length // 2] += length
    weights = random.random(length) + 0.1
    found = (
        *(np.full(length, 1 / length), one, slope, -slope, second, -second),
        *(binomial / binomial.sum(), binomial, weights / weights.sum(), np.ones(length)),
        *(np.zeros(length), np.arange(length), one[::-1] * 2, np.exp2(np.arange(length))),
    )
    return tuple(np.asarray(f, np.float32) for f in found)
