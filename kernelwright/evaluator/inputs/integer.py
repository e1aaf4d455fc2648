"""Draws flags and integers: ranges with their ends, rows of one value, what tasks tell apart."""

from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.inputs.value_domain import Domain
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.executable import Array

_LARGEST = 300
"""More than a byte holds, and sums of 4096 products stay in 32 bits."""
_FAR = frozenset((Distribution.LARGE, Distribution.HUGE, Distribution.WIDE, Distribution.SHIFTED))
"""Kinds whose integers lie wherever they may, also where a task tells only some of them apart."""
_ONE_BEYOND = frozenset(
    (Distribution.SMALL, Distribution.CONSTANT, Distribution.DENORMAL, Distribution.DISTANT)
)
"""Kinds whose integers also take the first that is like all beyond: a length of all positions."""
_MOST_MATCHED = 3
"""Few enough segments for most to meet their like."""
_CHOICES = {Distribution.CONSTANT: 1, Distribution.TIED: 2}
"""How many different indices some kinds have: all tokens may ask for one expert."""
_ENDS = {Distribution.ZERO: 0, Distribution.EXTREME: 1}
"""Kinds in which all integers are the least or the greatest, and no flag is set or every one."""
_OF_ALL_SIZES = {Distribution.WIDE: 1.0, Distribution.MIXED: 0.5}
"""In which kinds integers may be as large as a quarter of their range, and how many of them."""
_WHOLE_RANGE = frozenset(
    (Distribution.ZERO, Distribution.EXTREME, Distribution.WIDE, Distribution.HUGE)
)
"""Kinds whose integers reach to the ends of their type, where what reads them wraps around."""
_LONE_FLAGS = {Distribution.ONE_HOT: True, Distribution.ALTERNATING: False}
"""Kinds in which one flag of each row is unlike the others, and whether it is the one set."""
_SET_SHARE = 154
"""Of 256: how many flags are set."""
_FEWEST_NAMED, _FEWEST_KEPT, _OFTEN, _TAKEN_SHARE = 4, 2, 2, 0.5
"""Things that integers name, and those that are kept of them; how often each is named in the mean
from where on chance leaves none out, and what share of all integers name one of them then."""
_BEYOND = frozenset((Distribution.NORMAL, Distribution.MIXED, Distribution.WIDE))
_BEYOND_SHARE = 0.125
"""Kinds in which indices that a task bounds itself also lie beyond, and how many of them do."""
_FEWEST_ROWS = 6
"""Of integers, so that some may hold one value each."""


@dataclass(frozen=True)
class Draw:
    """How an input is drawn, whatever its type."""

    distribution: Distribution
    random: Random
    turn: int
    """Differs from input to input and from case to case: what lone integers take in turn."""
    is_tame: bool
    """Integers are of the inner half of what they may be: as exponents the others overflow."""


def draw_flags(draws: Draw, type_: TensorType) -> Array:
    """Draw flags: rows of all, of one and of none, as masks have, and random ones elsewhere."""
    distribution, random = draws.distribution, draws.random
    if distribution in _ENDS:
        return np.full(type_.shape, bool(_ENDS[distribution]))
    if distribution in _LONE_FLAGS and type_.shape and type_.size:
        return _lone_flags(type_, random, flag=_LONE_FLAGS[distribution])
    flags = random.integers(0, 256, type_.shape, np.uint8) < _SET_SHARE
    if flags.ndim < 2 or not flags.size:
        return flags
    rows = flags.reshape(-1, _row_length(type_))
    special = random.permutation(max(len(rows), 4))[:2]
    for place, is_full in zip(special, (True, False), strict=True):
        if place < len(rows):
            rows[place] = is_full
            rows[place, random.integers(rows.shape[1])] = True
    if distribution is Distribution.MASKED and len(flags) > 1:
        flags[-1] = False
    elif distribution is Distribution.MIXED and len(rows) >= _FEWEST_ROWS:
        left = np.setdiff1d(np.arange(len(rows) - 1), special)
        empty, nearly_full = random.choice(left, 2, replace=False)
        rows[empty], rows[nearly_full] = False, True
        rows[nearly_full, random.integers(rows.shape[1])] = False
    return flags


def _row_length(type_: TensorType) -> int:
    """Return the length of the last axis that has one, as masks may end in axes of one place."""
    return next((length for length in reversed(type_.shape) if length > 1), 1)


def _lone_flags(type_: TensorType, random: Random, *, flag: bool) -> Array:
    """Draw rows of which one flag is unlike the others: the first, the last, any."""
    length = _row_length(type_)
    rows = np.full((type_.size // length, length), not flag)
    places = random.integers(0, length, len(rows))
    places[:1], places[1:2] = 0, length - 1
    rows[np.arange(len(rows)), places] = flag
    return rows.reshape(type_.shape)


def draw_integers(draws: Draw, type_: TensorType, domain: Domain) -> Array:
    """Draw integers of a kind within what the task may be given."""
    distribution, random = draws.distribution, draws.random
    low, high = _range(draws, type_, domain)
    dtype = type_.dtype.numpy
    if distribution in _ENDS:
        drawn = np.full(type_.shape, (low, high)[_ENDS[distribution]], dtype)
    elif _is_chosen(domain) and distribution in _CHOICES:
        low, high = domain.span or (low, high)
        chosen = random.integers(low, high, _CHOICES[distribution], endpoint=True)
        return random.choice(chosen, type_.shape).astype(dtype)
    else:
        if distribution is Distribution.MIXED and _names_all(type_, domain, low, high):
            drawn = _unevenly_named(type_, low, high, random)
            low, high = int(drawn.min()), int(drawn.max())
        else:
            drawn = np.asarray(random.integers(low, high, type_.shape, dtype, endpoint=True))
        if distribution is Distribution.MIXED:
            _place_rows(drawn, (low, high), random)
        _place_extremes(drawn, (low, high), draws)
        if domain.is_of_any_size and distribution in _OF_ALL_SIZES and not draws.is_tame:
            is_large = random.random(type_.shape, np.float32) < _OF_ALL_SIZES[distribution]
            drawn = np.where(is_large, _of_all_sizes(type_, random), drawn)
    if distribution in _BEYOND and (domain.is_bounded_below or domain.is_bounded_above):
        drawn = _reaching_beyond(drawn, domain, random)
    if domain.is_divisor:
        # What a division by zero gives, nobody knows.
        drawn[drawn == 0] = 1
    return np.asarray(drawn & ~dtype.type(domain.unset)) if domain.unset else drawn


def _is_chosen(domain: Domain) -> bool:
    """Say whether integers name things: indices, or what a task counts one by one."""
    return domain.index_limit is not None or domain.span is not None


def _names_all(type_: TensorType, domain: Domain, low: int, high: int) -> bool:
    """Say whether chance would leave none out of the things that integers name."""
    things = high - low + 1
    return domain.is_target and _FEWEST_NAMED <= things <= type_.size // _OFTEN


def _unevenly_named(type_: TensorType, low: int, high: int, random: Random) -> Array:
    """Draw integers that leave out the first, the last and half of all others, and prefer one.

    Segments, experts and bins may be empty or hold nearly everything.
    """
    inner = np.arange(low + 1, high)
    count = max(_FEWEST_KEPT, len(inner) // 2)
    kept = random.choice(inner, count, replace=False)
    drawn = random.choice(kept, type_.shape)
    is_taken = random.random(type_.shape, np.float32) < _TAKEN_SHARE
    return np.where(is_taken, random.choice(kept), drawn).astype(type_.dtype.numpy)


def _range(draws: Draw, type_: TensorType, domain: Domain) -> tuple[int, int]:
    """Return the least and the greatest integer of a kind."""
    limits = np.iinfo(type_.dtype.numpy)
    low, high = domain.levels or (max(limits.min, -_LARGEST), min(limits.max, _LARGEST))
    if domain.index_limit is not None:
        low, high = 0, max(domain.index_limit, 1) - 1
    elif domain.is_packed or (domain.is_whole_range and draws.distribution in _WHOLE_RANGE):
        low, high = limits.min, limits.max
        low += int(domain.avoids_least and limits.min < 0)
    elif draws.distribution not in _FAR:
        low, high = _told_apart(draws.distribution, type_, domain) or (low, high)
    if draws.is_tame and domain.is_of_any_size:
        low, high = low + (high - low) // 4, high - (high - low) // 4
    return int(low), int(high)


def _place_rows(array: Array, extremes: tuple[int, int], random: Random) -> None:
    """Let three rows hold one integer each: the least, the greatest, and any."""
    if array.ndim < 2 or array.size < _FEWEST_ROWS * array.shape[-1]:
        return
    rows = array.reshape(-1, max(array.shape[-1], 1))
    if len(rows) < _FEWEST_ROWS:
        return
    values = (*extremes, int(rows[0, 0]))
    for place, value in zip(random.permutation(len(rows) - 1), values, strict=False):
        rows[place] = value


def _told_apart(
    distribution: Distribution, type_: TensorType, domain: Domain
) -> tuple[int, int] | None:
    """Return the ends of the integers that a task tells apart, None where it does of all."""
    if domain.span is None:
        return (0, _MOST_MATCHED) if domain.is_matched else None
    beyond, limits = int(distribution in _ONE_BEYOND), np.iinfo(type_.dtype.numpy)
    low = max(domain.span[0] - beyond, int(limits.min))
    high = min(domain.span[1] + beyond, int(limits.max))
    return (low, high) if low <= high else None


def _of_all_sizes(type_: TensorType, random: np.random.Generator) -> Array:
    """Draw integers of every number of bits, up to a quarter of their range."""
    dtype = type_.dtype.numpy
    limits = np.iinfo(dtype)
    drawn = random.integers(limits.min, limits.max, type_.shape, dtype, endpoint=True)
    dropped_bits = random.integers(2, 8 * type_.dtype.itemsize, type_.shape)
    return np.asarray(drawn >> dropped_bits.astype(dtype))


def _reaching_beyond(array: Array, domain: Domain, random: Random) -> Array:
    """Let some indices lie beyond what the task bounds them to, at any distance."""
    assert domain.index_limit is not None
    limits, ends = np.iinfo(array.dtype.name), list[tuple[int, int]]()
    if domain.is_bounded_below and limits.min < 0:
        ends.append((-1, int(limits.min) + 1))
    if domain.is_bounded_above and domain.index_limit <= limits.max:
        ends.append((domain.index_limit, int(limits.max) - domain.index_limit))
    for first, farthest in ends:
        bits = random.integers(0, abs(farthest).bit_length(), array.shape)
        away = (random.random(array.shape) * 2.0**bits).astype(np.int64)
        beyond = first + (away if farthest > 0 else -away)
        chosen = random.random(array.shape, np.float32) < _BEYOND_SHARE
        array = np.where(chosen, beyond.astype(array.dtype), array)
    return array


def _place_extremes(array: Array, extremes: tuple[int, int], draws: Draw) -> None:
    """Put the least and the greatest value in: chance seldom draws one class of many.

    A lone element is either of them in every fourth case.
    """
    if array.size == 1:
        if draws.turn % 4 < len(extremes):
            array.reshape(-1)[0] = extremes[draws.turn % 4]
        return
    count = max(array.size, 3)  # one of two takes any value
    first = int(draws.random.integers(count))
    second = (first + 1 + int(draws.random.integers(count - 1))) % count
    for place, value in zip((first, second), extremes, strict=True):
        if place < array.size:
            array.reshape(-1)[place] = value
