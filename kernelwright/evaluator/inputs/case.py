"""The inputs on which a program is judged: shape, distribution, layout, and a secret seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kernelwright.evaluator.inputs.boundary import place_boundaries
from kernelwright.evaluator.inputs.distribution import FOCUSED, Distribution
from kernelwright.evaluator.inputs.draw import (
    Random,
    Values,
    as_shares,
    draw,
    draw_normal_beside,
    draw_rows,
    place_last_infinity,
)
from kernelwright.evaluator.inputs.extent import extent_of
from kernelwright.evaluator.inputs.far_rows import move_to_ends
from kernelwright.evaluator.inputs.independence import rows_of, weighted_input
from kernelwright.evaluator.inputs.integer import Draw, draw_flags, draw_integers
from kernelwright.evaluator.inputs.lattice import constants_of, place_constants
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.literals import place_literals
from kernelwright.evaluator.inputs.lone import (
    Layer,
    lone_flags,
    lone_integers,
    lone_reals,
    sweep_of,
    swept_rows,
    turns,
)
from kernelwright.evaluator.inputs.meeting import hide_behind, meet
from kernelwright.evaluator.inputs.mixed import draw_mixed, lower_terms, shaped
from kernelwright.evaluator.inputs.overflow_room import overflow_room
from kernelwright.evaluator.inputs.repetition import repetition_of
from kernelwright.evaluator.inputs.structures.placing import structure
from kernelwright.evaluator.inputs.swept import SweptInputs
from kernelwright.evaluator.inputs.value_domain import Domain, domains_of, is_summed
from kernelwright.evaluator.inputs.whole_range import groups_of, place_anywhere
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

_WORK_BYTES = 64
"""For each element of inputs and outputs: some float64 arrays live at once in an oracle."""
_EXPECTED_BYTES = 16
"""For each element of an output, beside itself: its ideal value, its tolerance, and two masks."""


@dataclass(frozen=True)
class Case:
    """One set of inputs, fully determined by its fields and the config's secret."""

    graph: Graph
    distribution: Distribution
    layout: Layout = Layout.DENSE
    attempt: int = 0
    """Raised when a drawn case proves nothing and is replaced."""
    is_hidden: bool = False
    part: int = 0
    """Which of several cases of one kind: which input takes it, and what happens in its rows."""
    literals: tuple[float, ...] = ()
    """Numbers of a program's text that the inputs hold, for the kind of that name."""

    @property
    def shapes(self) -> tuple[str, ...]:
        """Types of the inputs, as people read them."""
        return tuple(map(str, self.graph.input_types))

    @property
    def name(self) -> str:
        """Name the case for people; two cases of a suite never share it."""
        layout = "" if self.layout is Layout.DENSE else f", {self.layout}"
        part = f", part {self.part + 1}" if self.part else ""
        redrawn = f", draw {self.attempt + 1}" if self.attempt else ""
        return f"{self.distribution} {' '.join(self.shapes)}{layout}{part}{redrawn}"

    @property
    def is_edge(self) -> bool:
        """True where probes cannot fail by nature: nothing to compute, or nothing finite."""
        return any(t.size == 0 for t in self.graph.output_types)

    @property
    def work_bytes(self) -> int:
        """About as much memory as it takes to find out what the case must give."""
        types = (*self.graph.input_types, *self.graph.output_types)
        repetition = repetition_of(self.graph)
        if repetition is None:
            return _WORK_BYTES * extent_of(self.graph)
        own = sum(t.size * t.dtype.itemsize for t in types)
        expected = sum(_EXPECTED_BYTES * t.size for t in self.graph.output_types)
        return own + expected + replace(self, graph=repetition.graph).work_bytes

    # Numbers at the ends of a dtype, their neighbours and multiples round, overflow or are NaN.
    @np.errstate(all="ignore")
    def inputs(self, secret: str) -> tuple[Array, ...]:
        """Draw the inputs, dense, in call order; of very large ones some rows, many times."""
        repetition = repetition_of(self.graph)
        if repetition is None:
            return self._laid_out(self._drawn(secret))
        distinct = replace(self, graph=repetition.graph)._drawn(secret)
        random = self._random(secret)
        return self._laid_out(repetition.repeated(distinct, self.graph.input_types, random))

    def _random(self, secret: str) -> Random:
        text = f"{secret}|{self.graph.fingerprint}|{self.name}|{self.is_hidden}|{self.literals}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
        return np.random.default_rng(seed)

    def _laid_out(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(self._layout_values(array, place) for place, array in enumerate(arrays))

    @np.errstate(all="ignore")
    def swept(self, secret: str) -> SweptInputs:
        """Draw what all parts of a case of lone extremes share, and where their extremes lie."""
        first = replace(self, part=self.part % turns(self.graph))
        ground, high, low = (first._drawn_as(layer, secret) for layer in Layer)
        random = replace(self, part=0)._random
        sweeps = (
            sweep_of(self.graph, place, random(secret), self.literals)
            if (ground[place] != high[place]).any()
            else None
            for place in range(len(ground))
        )
        return SweptInputs(ground, high, low, tuple(sweeps))

    def _drawn(self, secret: str) -> tuple[Array, ...]:
        """Draw the inputs, whatever their layout makes of them."""
        if self.distribution is Distribution.LONE:
            return self.swept(secret).inputs(self.part)
        return self._drawn_as(Layer.GROUND, secret)

    def _drawn_as(self, layer: Layer, secret: str) -> tuple[Array, ...]:
        """Draw the inputs; what is swept of lone extremes is of one layer everywhere."""
        random = self._random(secret)
        types, domains = self.graph.input_types, domains_of(self.graph)
        exact = {
            place: _draw_exact(self._draw(place, random), type_, domains[place])
            for place, type_ in enumerate(types)
            if type_.dtype is Dtype.BOOL or type_.dtype.is_integer
        }
        self._meet_integers(exact, domains, random)
        reals = self._reals(exact, random)
        if self.distribution is Distribution.LONE:
            self._set_apart(layer, exact, reals, domains, self._random(secret))
        drawn = tuple(
            exact[place]
            if place in exact
            else _rounded(reals[place], self._draw(place, random), type_, domains[place])
            for place, type_ in enumerate(types)
        )
        if self.distribution is Distribution.STRUCTURED:
            order = replace(self, part=0)._random(secret)
            drawn = structure(self.graph, drawn, domains, self.part, order, random)
        if self.distribution is Distribution.BOUNDARY:
            drawn = place_boundaries(self.graph, drawn, domains, random)
        return tuple(map(_within_its_table, drawn, domains))

    def _meet_integers(
        self, exact: dict[int, Array], domains: Sequence[Domain], random: Random
    ) -> None:
        """Let integers lie anywhere that may, and inputs of one type meet at their ends."""
        if self.attempt:
            return
        free = [place for place in exact if _lies_anywhere(exact[place], domains[place])]
        for places in groups_of(self.graph.input_types, free):
            arrays = [exact[place] for place in places]
            is_full = not any(domains[place].avoids_least for place in places)
            place_anywhere(arrays, self.distribution, random, is_full=is_full)
            for place in places:
                exact[place] = _with_landmarks(
                    exact[place], self.distribution, domains[place], random
                )
                if domains[place].is_divisor:
                    exact[place][exact[place] == 0] = 1

    def _set_apart(
        self,
        layer: Layer,
        exact: dict[int, Array],
        reals: dict[int, Values],
        domains: Sequence[Domain],
        random: Random,
    ) -> None:
        """Let swept inputs hold one layer: their ground, or what is great or low in each row."""
        for place, type_ in enumerate(self.graph.input_types):
            rows = swept_rows(self.graph, place)
            if rows is None:
                continue
            if type_.dtype is Dtype.BOOL:
                flags = lone_flags(self.graph, rows, layer, self.part)
                if flags is not None:
                    exact[place] = shaped(rows, type_, flags, random)
            elif place in reals:
                is_positive = domains[place].is_positive
                drawn = lone_reals(rows, layer, random, is_positive=is_positive)
                drawn = as_shares(drawn) if domains[place].is_share else drawn
                reals[place] = shaped(rows, type_, drawn, random)
            elif _lies_anywhere(exact[place], domains[place]):
                integers = lone_integers(rows, layer, type_.dtype, random)
                exact[place] = shaped(rows, type_, integers, random)

    def _reals(self, exact: dict[int, Array], random: Random) -> dict[int, Values]:
        """Draw all inputs that are no integers and no flags, not rounded yet."""
        types = self.graph.input_types
        if self.distribution is Distribution.MIXED and self.attempt % 2 == 0:
            drawn = draw_mixed(self.graph, self.part, random)
        else:
            drawn = self._of_one_kind(random)
        places = sorted(drawn, key=lambda place: -types[place].size)
        if self.distribution is Distribution.PAIRED:
            for one, other in pairwise(places):
                if types[one] == types[other]:
                    shape = (-1, types[one].shape[-1] if len(types[one].shape) > 1 else 1)
                    meet(drawn[one].reshape(shape), drawn[other].reshape(shape), types[one].dtype)
        hides = self.distribution in (Distribution.BEHIND_MASK, Distribution.MIXED)
        for mask, place in masked_inputs(types) if hides else ():
            if self.distribution is Distribution.BEHIND_MASK or self.part % 2:
                is_open = np.asarray(exact[mask], bool)
                hide_behind(drawn[place], is_open, types[place].dtype, random)
                if is_summed(self.graph, self.graph.inputs[place]):
                    lower_terms(drawn[place], types[place].dtype)
        if self.literals and self.distribution is Distribution.LITERALS:
            for place in places:
                place_literals(drawn[place], self.literals, types[place].dtype, random)
        return drawn

    def _of_one_kind(self, random: Random) -> dict[int, Values]:
        types = self.graph.input_types
        focus = _focus(types, self.attempt + self.part)
        if self.distribution is Distribution.FADING:
            focus = weighted_input(self.graph)
        drawn = {}
        for place, type_ in enumerate(types):
            if type_.dtype is Dtype.BOOL or type_.dtype.is_integer:
                continue
            is_left_out = self.distribution in FOCUSED and place != focus
            kind = self.distribution
            drawn[place] = (
                draw_normal_beside(kind, type_.shape, type_.dtype, random)
                if is_left_out
                else self._rows_of_kind(place, random)
            )
            if kind is Distribution.FADING and place == focus:
                place_last_infinity(drawn[place], random)
            if kind is Distribution.NEAR_ENDS:
                move_to_ends(drawn[place], type_.dtype, overflow_room(self.graph))
            if kind is Distribution.LATTICE:
                place_constants(drawn[place], constants_of(self.graph), random)
        return drawn

    def _rows_of_kind(self, place: int, random: Random) -> Values:
        """Draw rows along the last axis, or along the first ones where outputs join those only."""
        kind, type_ = self.distribution, self.graph.input_types[place]
        rows = rows_of(self.graph, place) if type_.size else None
        if rows is None or rows.is_elementwise or len(type_.shape) - 1 not in rows.axes:
            return draw(kind, type_.shape, type_.dtype, random)
        values = draw_rows(kind, rows.count, rows.length, type_.dtype, random)
        return shaped(rows, type_, values, random)

    def _draw(self, place: int, random: Random) -> Draw:
        turn = place + self.attempt + self.part + list(Distribution).index(self.distribution)
        turn += list(Layout).index(self.layout)
        return Draw(self.distribution, random, turn, self.attempt > 0 and self.attempt % 2 == 0)

    def _layout_values(self, array: Array, position: int) -> Array:
        return np.ascontiguousarray(self.layout.place(array, position)).reshape(array.shape)


def masked_inputs(types: Sequence[TensorType]) -> tuple[tuple[int, int], ...]:
    """Return the places of each mask of flags and of the floats that it could hide."""
    return tuple(
        (mask, place)
        for mask, flags in enumerate(types)
        for place, type_ in enumerate(types)
        if flags.dtype is Dtype.BOOL and flags.shape and type_.dtype.is_float
        if _broadcasts(flags.shape, type_.shape)
    )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def _focus(types: Sequence[TensorType], turn: int) -> int | None:
    """Pick the input that takes a focused distribution: the largest float one, then the others."""
    by_size = floats_by_size(types)
    return by_size[turn % len(by_size)] if by_size else -1


def floats_by_size(types: Sequence[TensorType]) -> list[int]:
    """Return the places of the float inputs, the largest first."""
    floats = [i for i, t in enumerate(types) if t.dtype.is_float]
    return sorted(floats, key=lambda i: -types[i].size)


_LANDMARKED = (Distribution.TIED, Distribution.MIXED)
_LANDMARK_SHARE = 0.1
_MOST_LANDMARKED = 1 << 14
"""Elements that are landmarks: of a large array they need not be a tenth."""
_MAY_BE_ZERO = frozenset(
    (
        *(Distribution.MASKED, Distribution.ZERO, Distribution.DENORMAL, Distribution.EXTREME),
        *(Distribution.MIXED, Distribution.SENTINEL, Distribution.NAN, Distribution.INFINITE),
        *(Distribution.PAIRED, Distribution.BEHIND_MASK, Distribution.LITERALS),
        *(Distribution.LATTICE, Distribution.BESIDE_NAN, Distribution.NEAR_ENDS),
    )
)
"""Kinds whose positive inputs come as close to zero as they like."""


_WITH_EXTREMES = frozenset(
    (
        *(Distribution.EXTREME, Distribution.SENTINEL, Distribution.PAIRED),
        *(Distribution.BEHIND_MASK, Distribution.LITERALS, Distribution.BESIDE_NAN),
    )
)
"""Kinds whose terms are lowered as a whole; of mixed rows it hangs on their kind."""


def _lies_anywhere(array: Array, domain: Domain) -> bool:
    is_free = domain.is_whole_range and domain.is_of_any_size and domain.span is None
    return is_free and array.dtype.kind in "iu" and array.size > 0


def _draw_exact(draws: Draw, type_: TensorType, domain: Domain) -> Array:
    if type_.dtype is Dtype.BOOL:
        return draw_flags(draws, type_)
    drawn = draw_integers(draws, type_, domain)
    return _with_landmarks(drawn, draws.distribution, domain, draws.random)


def _rounded(values: Values, draws: Draw, type_: TensorType, domain: Domain) -> Array:
    """Round to the format, within what the task may be given."""
    kind, random = draws.distribution, draws.random
    if domain.is_positive and kind is not Distribution.SPECIAL:
        np.abs(values, out=values)
        if kind not in _MAY_BE_ZERO:
            values += np.float32(1e-3)
        if domain.is_share:
            values = as_shares(values)
    if domain.is_summed and kind in _WITH_EXTREMES:
        lower_terms(values, type_.dtype)
    if type_.dtype is Dtype.COMPLEX64:
        imaginary = random.standard_normal(type_.shape, np.float32)
        return (values + 1j * imaginary).astype(np.complex64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.asarray(values).astype(type_.dtype.numpy)
    _vary_payloads(rounded)
    return _with_landmarks(rounded, kind, domain, random)


def _vary_payloads(array: Array) -> None:
    """Let quiet NaN be by turns the usual one, the one after it, and all ones, of either sign."""
    if array.dtype.itemsize > np.dtype(np.float32).itemsize:
        return
    places = np.flatnonzero(np.isnan(array))
    word = np.uint16 if array.dtype.itemsize == 2 else np.uint32
    bits = array.reshape(-1).view(word)
    payload = np.invert(np.array(-np.inf, array.dtype).view(word))
    bits[places[1::3]] = np.bitwise_or(bits[places[1::3]], word(1))
    bits[places[2::3]] = np.bitwise_or(bits[places[2::3]], payload)


def _within_its_table(array: Array, domain: Domain) -> Array:
    """Let floats that become indices, as times of a schedule do, stay where there are elements."""
    if domain.index_limit is None or array.dtype.kind in "biuc":
        return array
    values = array.astype(np.float64)
    with np.errstate(invalid="ignore"):
        folded = np.where(np.isfinite(values), np.abs(values) % domain.index_limit, 0)
    rounded = folded.astype(array.dtype)
    last = max(domain.index_limit - 1, 0)
    is_beyond = rounded.astype(np.float64) >= domain.index_limit
    return np.where(is_beyond, np.asarray(last, array.dtype), rounded).astype(array.dtype)


def _with_landmarks(
    array: Array, distribution: Distribution, domain: Domain, random: Random
) -> Array:
    """Let some elements, and at least one of each, be what the task holds them against."""
    if distribution not in _LANDMARKED or not domain.landmarks or not array.size:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        landmarks = np.array(domain.landmarks).astype(array.dtype)
        if array.dtype.kind not in "iub":
            landmarks = landmarks[np.isfinite(landmarks.astype(np.float64))]
    if not landmarks.size:
        return array
    wanted = min(int(_LANDMARK_SHARE * array.size), _MOST_LANDMARKED)
    count = min(max(wanted, len(landmarks)), array.size)
    places = random.choice(array.size, count, replace=False, shuffle=False)
    turned = random.permutation(np.resize(landmarks, count))
    array.reshape(-1)[places] = turned
    return array
