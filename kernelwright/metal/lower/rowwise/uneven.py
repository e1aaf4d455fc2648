"""Rows that begin anywhere among the runs of their arrays: whole runs first, then what is left.

Neighbours are read together where their run begins at a multiple of its width. A row of 50,257
elements begins at another place in its run each time: lanes take the runs that lie in it as a
whole, and single lanes the few elements before the first and behind the last.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, always, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.layout import Block, Line, Walk, span
from kernelwright.metal.lower.emit.neighbour import PACKED
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer

NAMES = frozenset({"head", "whole"})
"""Elements before the first whole run, and those in whole runs."""


@dataclass(frozen=True)
class Uneven:
    """Where rows of `columns` elements begin among runs of `width`."""

    axis: Axis
    width: int
    base: Index
    """Where a row begins in memory."""

    @classmethod
    def of(cls, stores: Sequence[Store], axis: Axis, width: int) -> "Uneven | None":
        """Return the beginning that most arrays' rows share, None where none has runs."""
        found = Counter[Index]()
        loads = [t for t in walk([s.value for s in stores]) if isinstance(t, Load) and not t.places]
        accesses = [(load.offset, load.stored) for load in loads]
        accesses += [(s.offset, s.stored) for s in stores]
        for offset, stored in dict.fromkeys(accesses):
            base = offset.without((axis,))
            if offset.coefficient(axis) == 1 and stored in PACKED and base.terms:
                known = next((b for b in found if _is_even(base.minus(b), width)), base)
                found[known] += 1
        if not found:
            return None
        return cls(axis, width, found.most_common(1)[0][0])

    def lines(self, offset: Index) -> Index:
        """Return where the first whole run of an access's row begins."""
        return (offset.without((self.axis,)) + (self.width - 1)) // self.width * self.width

    def fits(self, offset: Index) -> bool:
        """Say whether an access has its runs where the rows' have theirs."""
        base = offset.without((self.axis,))
        return offset.coefficient(self.axis) == 1 and _is_even(base.minus(self.base), self.width)

    def declare(self, writer: Writer, stores: Sequence[Store], types: Iterable[str]) -> None:
        """Write how many elements stand before the first run, and point at every array's first."""
        writer.taken |= NAMES
        first, begin = writer.index(self.lines(self.base)), writer.index(self.base)
        writer.line("// Runs are aligned; few elements stand before the first or behind the last.")
        writer.line(f"uint head = {first} - {_grouped(begin)};")
        writer.line(f"uint whole = (columns - head) / {self.width} * {self.width};")
        accesses = [
            (t.array, t.offset) for t in walk([s.value for s in stores]) if isinstance(t, Load)
        ]
        known = frozenset(types)
        accesses += [(s.array, s.offset) for s in stores if s.array in known]
        for array, offset in dict.fromkeys(accesses):
            base = self.lines(offset) if self.fits(offset) else None
            if base is not None and (array, base) not in writer.pointers:
                name = writer.fresh(f"{array}_runs")
                writer.line(f"auto {name} = {array} + {_grouped(writer.index(base))};")
                writer.pointers[array, base] = name

    def walk(self, lanes: int, *, cached: bool) -> Walk:
        """Return the walk over whole runs, with the one over what they leave behind it."""
        width, edge = self.width, "column = lane < head ? lane : lane + whole"
        left = (Block("if (lane < columns - whole)"), Line(f"uint {edge};", "column"))
        per_run = span("column", width)
        # What a run's element is called, the row's first elements aside.
        neighbours = (per_run[0], Line("uint column = head + start + k;", "column"))
        if not cached:
            head = f"for (uint start = lane * {width}; start < whole; start += {lanes * width})"
            return Walk((Block(head), *neighbours), width=width, left=Walk(left))
        steps = -(-self.axis.extent // (lanes * width))
        around = (
            Block(f"for (uint i = 0; i < {steps}; ++i)"),
            Line(f"uint start = (i * {lanes} + lane) * {width};", "start"),
            Block("if (start < whole)"),
            *neighbours,
        )
        elements = steps * width
        last = Walk(left, f"[{elements}]", elements + 1)
        return Walk(around, f"[i * {width} + k]", elements + 1, width, last)


@dataclass(frozen=True, slots=True)
class UnevenSpan(Span):
    """Neighbours of rows that begin anywhere; arrays that begin elsewhere are read singly."""

    rows: Uneven = field(kw_only=True)

    def bind(self, writer: Writer, roots: Sequence[Expr], stores: Iterable[Store]) -> list[Run]:
        """Let the writer reach what a loop's terms read and write through runs."""
        loads = [t for t in always(roots, writer.bound) if isinstance(t, Load)]
        runs = [self._load(writer, load) for load in loads if self._fits(writer, load)]
        written = (s for s in stores if s.stored in PACKED and self.rows.fits(s.offset))
        return runs + [self._store(writer, store) for store in written]

    def _fits(self, writer: Writer, load: Load) -> bool:
        return self.rows.fits(load.offset) and self._is_read_here(writer, load)

    def _first(self, offset: Index) -> Index:
        return self.rows.lines(offset) + Index.of(Axis("start", self.axis.extent))


def _is_even(apart: Index, width: int) -> bool:
    return all(number % width == 0 for number in (apart.offset, *(c for _, c in apart.terms)))


def _grouped(text: str) -> str:
    return f"({text})" if " + " in text or " - " in text else text
