"""Rows whose halves meet, as in rope: a lane takes an element of every part at a time."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import ValueId
from kernelwright.metal.lower.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.index import Axis, Index, Remainder
from kernelwright.metal.lower.term import Choose, Reduced, Reducer, Store, Term, walk
from kernelwright.metal.lower.view import Coordinates

MOST_PARTS = 4
_JOINED = {
    Reducer.SUM: "add",
    Reducer.PRODUCT: "multiply",
    Reducer.MAXIMUM: "maximum",
    Reducer.MINIMUM: "minimum",
}
"""How the elements of a row's parts become one, before lanes reduce them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How rows of `length` are cut: side by side, or element by element in turn."""

    count: int
    length: int
    in_turn: bool

    def place(self, part: int) -> Index:
        """Return where the element of a part stands that a lane visits."""
        column = Index.of(Axis(REDUCED_AXIS, self.length // self.count))
        if self.in_turn:
            return column * self.count + part
        return column + part * (self.length // self.count)


def parts_of(stores: Sequence[Store], length: int) -> Parts | None:
    """Return the parts between which a row's elements choose, if they are equal and few.

    Reductions have to be such that elements of all parts can be joined first.
    """
    terms = list(walk([s.value for s in stores]))
    if any(isinstance(t, Reduced) and t.reducer not in _JOINED for t in terms):
        return None
    found = {p for t in terms if isinstance(t, Choose) and (p := _cut(t, length)) is not None}
    if len(found) != 1:
        return None
    parts = found.pop()
    return parts if 1 < parts.count <= MOST_PARTS and length % parts.count == 0 else None


def _cut(choice: Choose, length: int) -> Parts | None:
    column = Axis(REDUCED_AXIS, length)
    if choice.place == Index.of(column):
        return Parts(length // math.gcd(length, *choice.edges), length, in_turn=False)
    match choice.place.terms:
        case ((Remainder(of=inner, by=by), 1),) if inner == Index.of(column):
            return Parts(by, length, in_turn=True)
    return None


@dataclass
class PartBuilder(Builder):
    """Builds elements of rows that are walked part by part at once."""

    parts: Parts = Parts(1, 1, in_turn=False)
    _part: int = 0

    def reduced_axis(self, length: int) -> tuple[Index, Axis]:
        """Return the place in a row of the part's element, and the axis of all its elements."""
        if length != self.parts.length:
            return super().reduced_axis(length)
        return self.parts.place(self._part), Axis(REDUCED_AXIS, length // self.parts.count)

    def visited(
        self, reducer: Reducer, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Term, Axis]:
        """Return the elements of all parts, joined, and the axis that they are reduced over."""
        bodies: list[Term] = []
        for part in range(self.parts.count):
            self._part = part
            body, axis = self._along(source, axes, places)
            bodies.append(body)
        self._part = 0
        if axis.extent == math.prod(self.graph.types[source].shape[a] for a in axes):
            return bodies[0], axis
        return self._folded(_JOINED[reducer], bodies), axis


def places_of(parts: Parts) -> Iterable[Index]:
    """Return the places in a row that a lane writes at a time."""
    return [parts.place(part) for part in range(parts.count)]
