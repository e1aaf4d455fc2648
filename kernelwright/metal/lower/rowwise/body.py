"""The body of a row-wise kernel: rows are reduced in passes, and what is mapped is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelwright.metal.kernel_ir.expression import Expr, Load, OrderStat, ReduceExpr, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.accumulator import (
    Team,
    compensate,
    declare,
    finish,
    is_compensated,
    is_position,
    peaks_at,
    update,
)
from kernelwright.metal.lower.emit.layout import Block, Walk, surround, walk_of
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.run_peak import RunPeak, RunPosition
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.rowwise.online import (
    Pair,
    declare_online,
    finish_online,
    look_online,
    raise_online,
    update_online,
)
from kernelwright.metal.lower.rowwise.passes import Loop, column_of, kept_between, loops
from kernelwright.metal.lower.rowwise.ranking import Ranking
from kernelwright.metal.lower.rowwise.uneven import Uneven, UnevenSpan
from kernelwright.metal.lower.term.build import REDUCED_AXIS
from kernelwright.metal.schedule import Columnwise, Rowwise
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_LEAST_LANES = 32
"""Lanes that take all that whole runs leave of a row, an element each."""


@dataclass
class Rows:
    """One row-wise kernel being written."""

    writer: Writer
    stores: Sequence[Store]
    schedule: Rowwise | Columnwise
    types: Mapping[str, str]
    """Arrays as people read them, by name."""
    columns: int = 0
    slots: dict[int, tuple[str, str]] = field(default_factory=dict)
    """(register array, place in it) by the number of the term that is kept there."""
    after: Sequence[str] = ()
    """Lines behind all loops."""
    uneven: Uneven | None = None
    """Where rows begin among runs that do not divide them."""

    def write(self) -> str:
        """Return the kernel's body."""
        sequence = loops(self.stores, online=self.schedule.online)
        self.columns = max((loop.axis.extent for loop in sequence), default=1)
        self.writer.factors = {self.columns: "columns"} if self.columns > 1 else {}
        self.writer.taken |= {"columns"}
        self._write_loops(sequence)
        self.writer.lines += self.after
        return "\n".join([*self._head(), *self.writer.lines]) + "\n"

    def _write_loops(self, sequence: Sequence[Loop]) -> None:
        self._pointers()
        self._find_uneven(sequence)
        kept = kept_between(sequence) if self.schedule.cached else {}
        for place, loop in enumerate(sequence):
            if loop.is_map:
                break
            step = self._rank if loop.ranked else self._reduce
            step(loop, kept.get(place, ()))
        self._once_a_row()
        for loop in sequence:
            if loop.is_map:
                self._map(loop)

    def _find_uneven(self, sequence: Sequence[Loop]) -> None:
        """Let lanes take whole runs of rows that those do not divide."""
        schedule = self.schedule
        if not isinstance(schedule, Rowwise) or schedule.vector == 1:
            return
        axes = {loop.axis for loop in sequence}
        is_one = (
            len(axes) == 1 and self.columns % schedule.vector and schedule.lanes >= _LEAST_LANES
        )
        found = any(loop.ranked or any(map(is_position, loop.reduced)) for loop in sequence)
        if not is_one or found or schedule.kahan:
            return
        self.uneven = Uneven.of(self.stores, axes.pop(), schedule.vector)
        if self.uneven is not None:
            written = [s.array for s in self._in_memory(self.stores)]
            self.uneven.declare(self.writer, self.stores, written)

    def _span(self, walk_: Walk, axis: Axis) -> Span:
        if self.uneven is not None and walk_.left is not None:
            return UnevenSpan(axis, walk_.width, rows=self.uneven)
        return Span(axis, walk_.width)

    def _leave(self, inner: Writer, store: Store, walk_: Walk | None) -> None:
        """Write what becomes of a store's element; `walk_` is along its row, if it has one."""
        inner.store(store)

    def _in_memory(self, stores: Sequence[Store]) -> list[Store]:
        """Return the stores that write to memory."""
        return list(stores)

    @property
    def team(self) -> Team:
        """The lanes that share a row."""
        if isinstance(self.schedule, Columnwise):
            return Team(self.schedule.strips, is_strips=True)
        return Team(self.schedule.lanes)

    def _head(self) -> list[str]:
        if isinstance(self.schedule, Columnwise):
            head = [
                "uint row = thread_position_in_grid.x;",
                "uint lane = thread_position_in_threadgroup.y;",
                "uint simd_lane = thread_position_in_threadgroup.x;",
            ]
        else:
            head = self._row_head(self.schedule.lanes)
        if self.writer.mentions("columns"):
            head.insert(0, f"constexpr uint columns = {self.columns};")
        return [line for line in head if self._is_read(line)]

    def _row_head(self, lanes: int) -> list[str]:
        head = [f"uint row = thread_position_in_grid.{'x' if lanes == 1 else 'y'};"]
        if lanes == 32:
            head.append("uint lane = thread_index_in_simdgroup;")
        elif lanes > 1:
            head.append("uint lane = thread_position_in_threadgroup.x;")
        if lanes > 32:
            head.append("uint simd_lane = thread_index_in_simdgroup;")
            head.append("uint simdgroup = simdgroup_index_in_threadgroup;")
        return head

    def _is_read(self, line: str) -> bool:
        name = line.split(" = ")[0].split()[-1]
        return self.writer.mentions(name)

    def _pointers(self) -> None:
        """Point at the row of every array that has one, so that only the column remains.

        A place that a reduction finds is not known yet: such an access is written in full.
        """
        accesses: list[tuple[str, Index]] = []
        for term in walk([s.value for s in self.stores]):
            if not isinstance(term, Load) or any(map(_waits, term.places)):
                continue
            for place in term.places:
                if place.number not in self.writer.bound and not _has_column(place.axes):
                    self.writer.prepare([place])
                    self.writer.define(place)
            accesses.append((term.array, term.offset))
        accesses += [(s.array, s.offset) for s in self._in_memory(self.stores)]
        for array, offset in accesses:
            if not _has_column(offset.axes):
                continue
            base = offset.without(a for a in offset.axes if a.name == REDUCED_AXIS)
            if offset.minus(base).bounds[0] < 0:
                # Read from its end, a row's columns count down to its beginning.
                base += -base.offset
            if base.terms and not self._is_reached(array, base):
                name = self.writer.fresh(f"{array}_row")
                self.writer.line(f"// {array}: {self.types[array]}")
                self.writer.line(f"auto {name} = {array} + {self.writer.index(base)};")
                self.writer.pointers[array, base] = name

    def _is_reached(self, array: str, base: Index) -> bool:
        """Say whether a pointer stands at a place of a row, or before it."""
        pointers = (known for name, known in self.writer.pointers if name == array)
        apart = [base.minus(known).constant for known in pointers]
        return any(steps is not None and steps >= 0 for steps in apart)

    def _walk(self, axis: Axis) -> Walk:
        if self.uneven is not None and isinstance(self.schedule, Rowwise):
            return self.uneven.walk(self.schedule.lanes, cached=self.schedule.cached)
        columns = "columns" if axis.extent == self.columns else str(axis.extent)
        return walk_of(axis, columns, self.schedule)

    def _reduce(self, loop: Loop, kept: Sequence[Expr]) -> None:
        writer = self.writer
        writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)
        self._declare_slots(kept, walk_)
        kahan = isinstance(self.schedule, Rowwise) and self.schedule.kahan
        peaks_of = peaks_at(loop.reduced)
        apart = [r for r in loop.reduced if r not in peaks_of.values()]
        names = {r: declare(writer, r, kahan=kahan) for r in apart}
        online = {
            pair: declare_online(writer, pair, loop.moments, self.stores) for pair in loop.online
        }

        span_ = self._span(walk_, loop.axis)

        def body(inner: Writer) -> list[Run]:
            self._use_slots(inner, {t.number for t in kept})
            runs = span_.bind(inner, loop.roots, self._in_memory(loop.stores))
            inner.prepare(loop.roots)
            for store in loop.stores:
                self._leave(inner, store, walk_)
            for reduced, name in names.items():
                if reduced in positions:
                    positions[reduced].look(inner)
                elif kahan and is_compensated(reduced):
                    compensate(inner, reduced, name)
                else:
                    update(inner, reduced, name)
            for pair, pair_names in online.items():
                if pair in peaks:
                    look_online(inner, peaks[pair], pair_names)
                else:
                    update_online(inner, pair, pair_names)
            return runs

        positions: dict[ReduceExpr, RunPosition] = {}
        peaks: dict[Pair, RunPeak] = {}

        def run_by_run(outer: Writer) -> list[Run]:
            """Look for the largest of each run first: what hangs on it is rare then."""
            for reduced in filter(is_position, names):
                positions[reduced] = RunPosition.declare(outer, reduced, names[reduced], span_)
            for pair, found in online.items():
                peaks[pair] = RunPeak.declare(outer, pair[0].body, "raised", found.peak, span_)
            surround(outer, walk_.per_neighbour, body)
            for position in positions.values():
                position.settle(outer, walk_.per_neighbour)
            for pair, pair_names in online.items():
                raise_online(outer, pair, pair_names, peaks[pair], walk_.per_neighbour, span_)
            return []

        if walk_.width > 1 and (online or any(map(is_position, names))):
            surround(writer, walk_.per_run, run_by_run)
        else:
            surround(writer, walk_.around, body)
        if walk_.left is not None:
            peaks, span_ = {}, Span(loop.axis, 1)
            with self._last(walk_.left):
                surround(writer, walk_.left.around, body)
        for position in positions.values():
            if position.is_found_later:
                position.find(writer, walk_.per_neighbour, span_)
        for reduced, name in names.items():
            finish(writer, reduced, name, self.team, peaks_of.get(reduced))
        for pair, pair_names in online.items():
            finish_online(writer, pair, pair_names, self.team)

    def _rank(self, loop: Loop, kept: Sequence[Expr]) -> None:
        """Find the ranks of a row one after the other, its keys kept where values are."""
        writer = self.writer
        writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)
        self._declare_slots(kept, walk_)

        def named(inner: Writer) -> list[Run]:
            self._use_slots(inner, {t.number for t in kept})
            runs = Span(loop.axis, walk_.width).bind(inner, loop.roots, ())
            inner.prepare(loop.roots)
            return runs

        ranking = Ranking(writer, loop.ranked, self.team)
        if isinstance(self.schedule, Rowwise) and self.schedule.cached:
            ranking.keep(walk_, named)
        with ranking.each_rank():
            surround(writer, walk_.around, lambda inner: ranking.consider(inner, walk_, named))
        ranking.bind()

    def _declare_slots(self, kept: Sequence[Expr], walk_: Walk) -> None:
        if walk_.is_straight:
            self.writer.wanted |= {term.number for term in kept}
            return
        for term in kept:
            plural = f"{term.name}s" if walk_.slot else term.name
            name = self.writer.fresh(plural)
            size = f"[{walk_.elements}]" if walk_.slot else ""
            self.writer.line(f"{MSL_TYPE[term.dtype]} {name}{size};")
            self.slots[term.number] = (name, walk_.slot)

    def _use_slots(self, inner: Writer, written: set[int]) -> None:
        """Bind what earlier loops kept, and say where this one keeps its own."""
        for number, (array, slot) in self.slots.items():
            if number in written:
                inner.slots[number] = f"{array}{slot}"
            else:
                inner.bound[number] = f"{array}{slot}"

    def _once_a_row(self) -> None:
        single = [s for s in self.stores if column_of(s) is None]
        if not single:
            return
        shared = [s.value for s in self.stores if s not in single]
        self.writer.prepare(shared, [a for v in shared for a in v.axes if a.name == REDUCED_AXIS])

        def body(inner: Writer) -> list[Run]:
            inner.prepare([s.value for s in single])
            for store in single:
                self._leave(inner, store, None)
            return []

        guard = () if self.team.lanes == 1 else (Block("if (lane == 0)"),)
        surround(self.writer, guard, body)

    def _map(self, loop: Loop) -> None:
        self.writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)

        span_ = self._span(walk_, loop.axis)

        def body(inner: Writer) -> list[Run]:
            self._use_slots(inner, set())
            written = self._in_memory(loop.stores)
            runs = span_.bind(inner, loop.roots, written)
            inner.prepare(loop.roots)
            for store in loop.stores:
                self._leave(inner, store, walk_)
            return runs

        surround(self.writer, walk_.around, body)
        if walk_.left is not None:
            span_ = Span(loop.axis, 1)
            with self._last(walk_.left):
                surround(self.writer, walk_.left.around, body)

    @contextmanager
    def _last(self, left: Walk) -> Iterator[None]:
        """Let kept values stand where those of elements that runs leave do."""
        every = self.slots
        self.slots = {n: (name, left.slot if slot else "") for n, (name, slot) in every.items()}
        yield
        self.slots = every


def _waits(term: Expr) -> bool:
    return any(isinstance(t, ReduceExpr | OrderStat) for t in walk([term]))


def _has_column(axes: Iterable[Axis]) -> bool:
    return any(axis.name == REDUCED_AXIS for axis in axes)
