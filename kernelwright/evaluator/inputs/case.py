"""The inputs on which a program is judged: shape, distribution, layout, and a secret seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kernelwright.evaluator.inputs.distribution import Distribution, draw
from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.metal.device.base import Array


class Layout(StrEnum):
    """How an input lies in memory."""

    DENSE = "dense"
    STRIDED = "strided"
    """Every second element of a larger buffer."""
    BROADCAST = "broadcast"
    """The first row repeated with stride 0."""
    VARIED = "varied"
    """By turns column after column, every second element, and dense: no two inputs alike."""

    def place(self, array: Array, position: int) -> Array:
        """Return the same values in this layout, for the input at this position."""
        turn = position % 3 if self is Layout.VARIED else None
        if turn == 0:
            return array.T.copy().T
        if (self is Layout.STRIDED or turn == 1) and array.ndim:
            wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        if self is Layout.BROADCAST and array.ndim >= 2 and len(array):
            return np.broadcast_to(array[:1], array.shape)
        return array


_WORK_BYTES = 64
"""For each element of inputs and outputs: some float64 arrays live at once in an oracle."""


@dataclass(frozen=True)
class Case:
    """One set of inputs, fully determined by its fields and the config's secret."""

    graph: Graph
    distribution: Distribution
    layout: Layout = Layout.DENSE
    attempt: int = 0
    """Raised when a drawn case proves nothing and is replaced."""
    is_hidden: bool = False

    @property
    def shapes(self) -> tuple[str, ...]:
        """Types of the inputs, as people read them."""
        return tuple(map(str, self.graph.input_types))

    @property
    def name(self) -> str:
        """Name the case for people; two cases of a suite never share it."""
        layout = "" if self.layout is Layout.DENSE else f", {self.layout}"
        redrawn = f", draw {self.attempt + 1}" if self.attempt else ""
        return f"{self.distribution} {' '.join(self.shapes)}{layout}{redrawn}"

    @property
    def is_edge(self) -> bool:
        """True where probes cannot fail by nature: nothing to compute, or nothing finite."""
        return any(t.size == 0 for t in self.graph.output_types)

    @property
    def work_bytes(self) -> int:
        """About as much memory as it takes to find out what the case must give."""
        types = (*self.graph.input_types, *self.graph.output_types)
        return _WORK_BYTES * sum(t.size for t in types)

    def inputs(self, secret: str) -> tuple[Array, ...]:
        """Draw the inputs, dense, in call order."""
        text = f"{secret}|{self.graph.fingerprint}|{self.name}|{self.is_hidden}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
        random = np.random.default_rng(seed)
        focus = _focus(self.graph.input_types, self.attempt)
        return tuple(
            self._layout_values(
                _draw_input(self._draw(place, random), type_, domain, is_focus=place == focus),
                place,
            )
            for place, (type_, domain) in enumerate(
                zip(self.graph.input_types, domains_of(self.graph), strict=True)
            )
        )

    def _draw(self, place: int, random: np.random.Generator) -> "_Draw":
        turn = place + self.attempt + list(Distribution).index(self.distribution)
        turn += list(Layout).index(self.layout)
        return _Draw(self.distribution, random, turn, self.attempt > 0 and self.attempt % 2 == 0)

    def _layout_values(self, array: Array, position: int) -> Array:
        return np.ascontiguousarray(self.layout.place(array, position)).reshape(array.shape)


_FOCUSED = frozenset(
    (
        Distribution.DENORMAL,
        Distribution.OFFSET,
        Distribution.SHIFTED,
        Distribution.DISTANT,
        Distribution.MASKED,
        Distribution.SPECIAL,
        Distribution.ONE_HOT,
        Distribution.CONSTANT,
    )
)
"""Kinds that only one input takes, lest they drown the others."""


def _focus(types: Sequence[TensorType], attempt: int) -> int:
    """Pick the input that takes a focused distribution: the largest float one, then the others."""
    floats = [i for i, t in enumerate(types) if t.dtype.is_float]
    by_size = sorted(floats, key=lambda i: -types[i].size)
    return by_size[attempt % len(by_size)] if by_size else -1


@dataclass(frozen=True)
class _Draw:
    """How an input is drawn, whatever its type."""

    distribution: Distribution
    random: np.random.Generator
    turn: int
    """Differs from input to input and from case to case: what lone integers take in turn."""
    is_tame: bool
    """Integers are of the inner half of what they may be: as exponents the others overflow."""


def _draw_input(draws: _Draw, type_: TensorType, domain: Domain, *, is_focus: bool) -> Array:
    random = draws.random
    if type_.dtype is Dtype.BOOL:
        return _flags(draws.distribution, type_, random)
    if type_.dtype.is_integer:
        return _integers(draws, type_, domain)
    kind = draws.distribution
    if kind in _FOCUSED and not is_focus:
        kind = Distribution.NORMAL
    values = draw(kind, type_.shape, type_.dtype, random)
    if domain.is_positive and kind is not Distribution.SPECIAL:
        values = np.abs(values) + (0.0 if kind is Distribution.MASKED else 1e-3)
    if type_.dtype is Dtype.COMPLEX64:
        return (values + 1j * random.standard_normal(type_.shape)).astype(np.complex64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.asarray(values).astype(type_.dtype.numpy)
    return _with_landmarks(rounded, kind, domain, random)


def _flags(distribution: Distribution, type_: TensorType, random: np.random.Generator) -> Array:
    """Draw flags: a row of all and a row of one, as masks have, and among random ones elsewhere."""
    flags = random.random(type_.shape) < 0.6
    if flags.ndim < 2 or not flags.size:
        return flags
    rows = flags.reshape(-1, type_.shape[-1])
    special = random.permutation(max(len(rows), 4))[:2]
    for place, is_full in zip(special, (True, False), strict=True):
        if place < len(rows):
            rows[place] = is_full
            rows[place, random.integers(rows.shape[1])] = True
    if distribution is Distribution.MASKED and len(flags) > 1:
        flags[-1] = False
    return flags


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

_OF_ALL_SIZES = {Distribution.WIDE: 1.0, Distribution.MIXED: 0.5}
"""In which kinds integers may be as large as a quarter of their range, and how many of them."""
_WITH_LANDMARKS = (Distribution.TIED, Distribution.MIXED)
_LANDMARK_SHARE = 0.1


def _integers(draws: _Draw, type_: TensorType, domain: Domain) -> Array:
    distribution, random = draws.distribution, draws.random
    limits = np.iinfo(type_.dtype.numpy)
    low, high = domain.levels or (max(limits.min, -_LARGEST), min(limits.max, _LARGEST))
    if domain.index_limit is not None:
        low, high = 0, max(domain.index_limit, 1) - 1
    elif domain.is_packed:
        low, high = limits.min, limits.max
    elif distribution not in _FAR:
        low, high = _told_apart(distribution, type_, domain) or (low, high)
    if draws.is_tame and domain.is_of_any_size:
        low, high = low + (high - low) // 4, high - (high - low) // 4
    if domain.index_limit is not None and distribution in _CHOICES:
        chosen = random.integers(low, high, _CHOICES[distribution], endpoint=True)
        return random.choice(chosen, type_.shape).astype(type_.dtype.numpy)
    wide = np.uint64 if type_.dtype is Dtype.UINT64 else np.int64
    drawn = random.integers(low, high, type_.shape, wide, endpoint=True).astype(type_.dtype.numpy)
    _place_extremes(drawn, (low, high), draws)
    if domain.is_of_any_size and distribution in _OF_ALL_SIZES and not draws.is_tame:
        is_large = random.random(type_.shape) < _OF_ALL_SIZES[distribution]
        drawn = np.where(is_large, _of_all_sizes(type_, random), drawn)
    if domain.is_divisor:
        # What a division by zero gives, nobody knows.
        drawn[drawn == 0] = 1
    drawn = drawn & ~drawn.dtype.type(domain.unset) if domain.unset else drawn
    return _with_landmarks(drawn, distribution, domain, random)


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


def _with_landmarks(
    array: Array, distribution: Distribution, domain: Domain, random: np.random.Generator
) -> Array:
    """Let some elements, and at least one, be what the task compares them with."""
    if distribution not in _WITH_LANDMARKS or not domain.landmarks or not array.size:
        return array
    is_landmark = np.asarray(random.random(array.shape) < _LANDMARK_SHARE)
    is_landmark.flat[random.integers(array.size)] = True
    with np.errstate(over="ignore", invalid="ignore"):
        landmarks = np.array(domain.landmarks).astype(array.dtype)
    return np.where(is_landmark, random.choice(landmarks, array.shape), array)


def _place_extremes(array: Array, extremes: tuple[int, int], draws: _Draw) -> None:
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
