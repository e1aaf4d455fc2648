"""Memory by cells: what a thread wrote since it met others, and what all threads see."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    added,
    chosen,
    converted,
    integer,
    parts,
    scaled,
    term,
    unknown,
)

_THREADGROUP = "threadgroup "
Factors = tuple[tuple[Term, int], ...]
Cell = tuple[str, Factors, int, int]
"""An array, the unknown and the known part of a place in it in bytes, and how many bytes."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place in an array, in bytes."""

    base: str
    """`buffer 8`, `threadgroup 0`, `own 3` for a thread's variable, or a global constant."""
    offset: Value

    def moved(self, distance: Value) -> "Pointer":
        """Return a place behind this one."""
        return Pointer(self.base, added(self.offset, distance, 64)) if distance != 0 else self

    def cell(self, size: int) -> Cell:
        """Return the cell of so many bytes that begins here."""
        constant, factors = parts(self.offset)
        return self.base, factors, constant, size


def pointer_of(value: object) -> Pointer:
    """Return a value that has to be a pointer.

    Raises:
        UnprovenError: it is none.
    """
    if not isinstance(value, Pointer):
        raise UnprovenError("a pointer hangs on data.")
    return value


def number_of(value: object) -> Value:
    """Return a value that has to be a number.

    Raises:
        UnprovenError: it is a pointer or a vector.
    """
    if not isinstance(value, Value):
        raise UnprovenError("it computes with a pointer.")
    return value


def is_own(cell: Cell) -> bool:
    """Say whether a cell is of a thread's own variable."""
    return cell[0].startswith("own ")


def is_threadgroup(cell: Cell) -> bool:
    """Say whether a cell is of threadgroup memory."""
    return cell[0].startswith(_THREADGROUP)


def _overlap(cell: Cell, other: Cell) -> bool:
    """Say whether two cells may have a byte in common."""
    is_behind = cell[2] >= other[2] + other[3] or other[2] >= cell[2] + cell[3]
    return cell[0] == other[0] and not (cell[1] == other[1] and is_behind)


def _is_within(cell: Cell, other: Cell) -> bool:
    """Say whether another cell surely has all bytes of one."""
    is_inside = other[2] <= cell[2] and cell[2] + cell[3] <= other[2] + other[3]
    return cell[:2] == other[:2] and is_inside


@dataclass
class Shared:
    """What all threads of a threadgroup see."""

    cells: dict[Cell, object] = field(default_factory=dict)
    forms: dict[str, set[tuple[Factors, int, int]]] = field(default_factory=dict)
    """How each array is accessed: the unknown part of places, the cells' size, and what is left of
    the known part by that."""
    written: set[str] = field(default_factory=set)
    awaited: set[str] = field(default_factory=set)
    """Arrays of which something was read that nobody here had stored."""

    def note(self, cell: Cell) -> None:
        """Remember how an array is accessed."""
        base, factors, constant, size = cell
        self.forms.setdefault(base, set()).add((factors, size, constant % size))

    def value(self, cell: Cell) -> object:
        """Return what a cell holds."""
        if cell in self.cells:
            return self.cells[cell]
        return unknown("load", *cell, low=0, high=(1 << (8 * cell[3])) - 1)

    def check(self) -> None:
        """Ask that two cells of an array that is written are one, or apart.

        Raises:
            UnprovenError: they may overlap, or another threadgroup may write what is read.
        """
        for base in self.written:
            if base in self.awaited and not base.startswith(_THREADGROUP):
                raise UnprovenError("an array is read that is written too.")
            if len(self.forms[base]) > 1:
                raise UnprovenError("places of an array may overlap.")


@dataclass
class Memory:
    """What one thread sees: its own stores, and behind them what all see."""

    shared: Shared
    stores: dict[Cell, object] = field(default_factory=dict)
    loads: set[Cell] = field(default_factory=set)
    """Cells of what all see that were read."""
    variables: int = 0
    fills: dict[Cell, int | Pointer] = field(default_factory=dict)
    """What ranges of own variables hold where nothing was stored since: one byte, or a copy."""

    def read(self, pointer: Pointer, size: int) -> object:
        """Return what a cell holds."""
        cell = pointer.cell(size)
        if cell in self.stores:
            return self.stores[cell]
        if is_own(cell):
            return self._part(cell)
        self.shared.note(cell)
        self.loads.add(cell)
        if cell not in self.shared.cells:
            self.shared.awaited.add(cell[0])
        return self.shared.value(cell)

    def write(self, pointer: Pointer, size: int, value: object) -> None:
        """Let a cell hold a value."""
        cell = pointer.cell(size)
        if is_own(cell):
            self._drop_overlapping(cell)
        else:
            self.shared.note(cell)
            self.shared.written.add(cell[0])
        self.stores[cell] = value

    def fill(self, pointer: Pointer, size: int, content: int | Pointer) -> None:
        """Let each byte of a thread's own variable be one, or those from a place that is read."""
        cell = pointer.cell(size)
        if not is_own(cell):
            raise UnprovenError("it fills memory that others see.")
        self._drop_overlapping(cell)
        self.fills = {other: held for other, held in self.fills.items() if other[0] != cell[0]}
        self.fills[cell] = content

    def move(self, target: Pointer, source: Pointer, size: int) -> None:
        """Copy so many bytes, cell by cell where they were stored in a thread's own variable."""
        if not is_own(source.cell(size)):
            self.fill(target, size, source)
            return
        cells = self.within(source, size)
        if sum(width for _, width, _ in cells) != size:
            raise UnprovenError("it copies what was not stored part by part.")
        for place, width, value in cells:
            self.write(target.moved(place), width, value)

    def _part(self, cell: Cell) -> object:
        """Return what was stored by other parts: in a larger number, or in several smaller ones."""
        stored = {other: value for other, value in self.stores.items() if _overlap(cell, other)}
        for other, value in stored.items():
            if _is_within(cell, other) and isinstance(value, Value):
                return self._piece(value, cell[2] - other[2], cell[3], other[3])
        if stored:
            return self._joined(cell, stored)
        for other, content in self.fills.items():
            if _is_within(cell, other):
                if isinstance(content, Pointer):
                    return self.read(content.moved(cell[2] - other[2]), cell[3])
                return int.from_bytes(bytes([content]) * cell[3], "little")
        raise UnprovenError("a variable is read that was not written.")

    def _joined(self, cell: Cell, stored: Mapping[Cell, object]) -> Value:
        is_whole = sum(other[3] for other in stored) == cell[3]
        if not is_whole or not all(_is_within(other, cell) for other in stored) or cell[3] > 8:
            raise UnprovenError("a variable is read by other parts than were written.")
        found: Value = 0
        for other, value in stored.items():
            part = converted("zext", number_of(value), 8 * other[3], 64)
            found = added(found, scaled(part, 1 << (8 * (other[2] - cell[2])), 64), 64)
        return found

    def _piece(self, value: Value, start: int, size: int, length: int) -> object:
        if isinstance(value, Term) and value.name == "load":
            base, factors, constant = value.args[:3]
            return self.shared.value((base, factors, constant + start, size))  # type: ignore[arg-type,operator]
        shifted = integer("lshr", value, 8 * start, 8 * length)
        return converted("trunc", shifted, 8 * length, 8 * size)

    def _drop_overlapping(self, cell: Cell) -> None:
        for other in [other for other in self.stores if other != cell and _overlap(cell, other)]:
            value = self.stores.pop(other)
            if _is_within(other, cell):
                continue
            if not _is_within(cell, other) or not isinstance(value, Value):
                raise UnprovenError("a variable is written by other parts than before.")
            self._keep_rest(other, value, cell)

    def _keep_rest(self, whole: Cell, value: Value, taken: Cell) -> None:
        """Keep what is left of a larger number before and behind a part that is overwritten."""
        base, factors, start, size = whole
        ends = (start, taken[2]), (taken[2] + taken[3], start + size)
        for first, end in ends:
            if first < end:
                rest = self._piece(value, first - start, end - first, size)
                self.stores[base, factors, first, end - first] = rest

    def within(self, pointer: Pointer, size: int) -> tuple[tuple[int, int, Value], ...]:
        """Return a variable's first cells: where each begins, how many bytes it has, its value."""
        return tuple(sorted(self._within(pointer, size), key=lambda cell: cell[0]))

    def _within(self, pointer: Pointer, size: int) -> Iterator[tuple[int, int, Value]]:
        base, factors, start, _ = pointer.cell(size)
        for (other, unknowns, place, width), value in self.stores.items():
            if (other, unknowns) == (base, factors) and start <= place < start + size:
                if not isinstance(value, Value) or place + width > start + size:
                    raise UnprovenError("a part of a variable is used that is no number.")
                yield place - start, width, value

    def copy(self) -> "Memory":
        """Return one that stands for itself from now on."""
        return replace(
            self, stores=dict(self.stores), loads=set(self.loads), fills=dict(self.fills)
        )

    def join(self, condition: Term, one: "Memory", other: "Memory") -> None:
        """Take what two copies hold, by a condition."""
        joined: dict[Cell, object] = {}
        for cell in one.stores.keys() | other.stores.keys():
            values = [side.stores.get(cell, _MISSING) for side in (one, other)]
            if _MISSING in values and is_own(cell):
                continue
            first, second = (self._before(cell) if v is _MISSING else v for v in values)
            joined[cell] = chosen(condition, first, second)
        self.stores = joined
        self.loads = one.loads | other.loads
        self.variables = max(one.variables, other.variables)
        self.fills = dict(one.fills.items() & other.fills.items())

    def _before(self, cell: Cell) -> object:
        return self.stores.get(cell, self.shared.value(cell))


_MISSING = term("missing")
