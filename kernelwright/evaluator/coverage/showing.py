"""Whether a side that was taken shows in what a program gives, and cases in which it does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import DeviceError
from kernelwright.evaluator.coverage.search import DirectedCase
from kernelwright.evaluator.coverage.sides import Side, Tally, forced_sides
from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.oracle.reference import Reference, calibrate, judge
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.evaluator.task import Tolerance
from kernelwright.metal.device.base import Condition
from kernelwright.metal.device.executable import Array

MOST_ELEMENTS = 1 << 16
"""Of a shape at which conditions are forced one by one."""
MOST_SIDES = 32
_MOST_CASES = 3
_MOST_HIDDEN = 4
"""Sides that cases are made for."""
_MOST_MADE = 3
"""Cases that are made for a side."""
_TIMEOUT_S = 1.0
Runs = Sequence[tuple[Reference, tuple[Condition, ...]]]


@dataclass
class Showing:
    """Looks for cases in which a side of a condition matters.

    A row of NaN, or of zeros that are multiplied, hides whatever a program does with it: a side
    that is taken in such rows alone is as good as never taken. The same order and the same
    equalities among ordinary numbers show it.
    """

    trial: Trial
    tolerances: Sequence[Tolerance]
    random: Random
    _ranks: dict[int, "_Ranks | None"] = field(default_factory=dict, init=False)
    """By case: several sides are tried on the same few."""

    def hidden(self, runs: Runs) -> Iterator[tuple[Side, Runs]]:
        """Yield the sides that matter in none of their cases, with some of those."""
        found = 0
        for side, taken in _taken(runs, _MOST_CASES)[:MOST_SIDES]:
            if not self._is_shown(side, taken):
                yield side, taken
                found += 1
            if found == _MOST_HIDDEN:
                return

    def shown(self, sides: Iterable[Side], runs: Runs) -> set[Side]:
        """Return those of some sides that matter in a case that takes them, whichever it is.

        The first ones may be of NaN, where it is infinities that a side is for.
        """
        taken = dict(_taken(runs, len(runs)))
        return {side for side in sides if self._is_shown(side, taken.get(side, ()))}

    def _is_shown(self, side: Side, taken: Runs) -> bool:
        return any(self._shows(side, *run) for run in taken)

    def cases(self, side: Side, taken: Runs) -> Iterator[Reference]:
        """Yield cases that take a side among ordinary numbers, until one of them shows it."""
        left = _MOST_MADE
        for reference, _ in taken:
            ranks = self._ranks_of(reference)
            for turn in range(2):
                inputs = self._relabelled(reference.inputs, ranks, keeps_zero=bool(turn % 2))
                conditions = self._watched(reference, inputs)
                if conditions is None or not _takes(conditions, side):
                    continue
                case = DirectedCase(
                    reference.case.graph, reference.case.distribution, arrays=inputs
                )
                made = calibrate(case, inputs, self.tolerances)
                left -= 1
                if not made.dropped:
                    yield made
                if not left or (not made.dropped and self._shows(side, made, conditions)):
                    return

    def _shows(self, side: Side, reference: Reference, conditions: Sequence[Condition]) -> bool:
        forced = forced_sides(conditions, (Side(side.key, not side.value),))
        try:
            result = self.trial.run(reference, watch=True, forced=forced, timeout_s=_TIMEOUT_S)
        except (Failure, DeviceError):
            return True
        return not all(deviation.is_acceptable for deviation in judge(reference, result.outputs))

    def _watched(
        self, reference: Reference, inputs: tuple[Array, ...]
    ) -> tuple[Condition, ...] | None:
        try:
            return self.trial.watch(reference.case.graph, inputs, _TIMEOUT_S).conditions
        except Failure:
            return None

    def _ranks_of(self, reference: Reference) -> "_Ranks | None":
        if id(reference) not in self._ranks:
            self._ranks[id(reference)] = _Ranks.of(reference.inputs)
        return self._ranks[id(reference)]

    def _relabelled(
        self, inputs: tuple[Array, ...], ranks: "_Ranks | None", *, keeps_zero: bool
    ) -> tuple[Array, ...]:
        """Give the floats other values, in the same order and equal where they are equal."""
        if ranks is None:
            return inputs
        known = ranks.values
        drawn = np.sort(self.random.standard_normal(known.size).astype(np.float32))
        if keeps_zero:
            drawn = np.sort(np.abs(drawn))
            below = int((known < 0).sum())
            drawn[:below] = -drawn[:below][::-1]
            drawn[known == 0] = 0
        return tuple(
            array if places is None else self._mapped(array, places, drawn)
            for array, places in zip(inputs, ranks.places, strict=True)
        )

    def _mapped(self, array: Array, places: NDArray[np.intp], drawn: Array) -> Array:
        """Give each element what was drawn for its rank, NaN a number of its own."""
        others = self.random.standard_normal(int((places == drawn.size).sum())).astype(np.float32)
        # One place makes a scalar, into which nothing is written.
        made = np.asarray(np.append(drawn, np.float32(0))[places])
        made[places == drawn.size] = others
        return np.asarray(made.astype(array.dtype))


@dataclass(frozen=True)
class _Ranks:
    """The order of all floats of some inputs."""

    values: NDArray[np.float32]
    """Each number once, in order."""
    places: tuple[NDArray[np.intp] | None, ...]
    """By input, the place of each element among the values; their number where it is NaN."""

    @classmethod
    def of(cls, inputs: tuple[Array, ...]) -> "_Ranks | None":
        """Rank the floats; None where there are none."""
        floats = [a for a in inputs if a.dtype.kind not in "buic"]
        if not floats:
            return None
        kinds = [_kinds(a) for a in floats]
        found, places = np.unique(
            np.concatenate([values for values, _ in kinds]), return_inverse=True
        )
        ends = np.cumsum([values.size for values, _ in kinds])[:-1]
        parts = np.split(places.reshape(-1), ends)
        ranked = (
            part[own].reshape(a.shape)
            for part, (_, own), a in zip(parts, kinds, floats, strict=True)
        )
        return cls(
            found[found == found],
            tuple(None if a.dtype.kind in "buic" else next(ranked) for a in inputs),
        )


def _kinds(array: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the numbers that an array has, and which of them each element is.

    Of 16 bits there are few enough for a table, in the place of an order of all elements.
    """
    if array.dtype.itemsize > 2:
        values, own = np.unique(array.astype(np.float32), return_inverse=True)
        return values, own.reshape(-1)
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint16)
    (there,) = np.nonzero(np.bincount(bits, minlength=1 << 16))
    place = np.zeros(1 << 16, np.intp)
    place[there] = np.arange(there.size)
    return there.astype(np.uint16).view(array.dtype).astype(np.float32), place[bits]


def _takes(conditions: Sequence[Condition], side: Side) -> bool:
    tally = Tally()
    tally.add(conditions)
    return tally.takes(side)


def _taken(runs: Runs, most: int) -> list[tuple[Side, Runs]]:
    """Return every side that was taken, with the first cases that take it, so many at most."""
    found: dict[Side, list[tuple[Reference, tuple[Condition, ...]]]] = {}
    for run in runs:
        tally = Tally()
        tally.add(run[1])
        for key in tally.watched:
            seen = tally.seen[key]
            for value, is_taken in ((False, seen.was_false), (True, seen.was_true)):
                if is_taken and len(found.setdefault(Side(key, value), [])) < most:
                    found[Side(key, value)].append(run)
    return list(found.items())
