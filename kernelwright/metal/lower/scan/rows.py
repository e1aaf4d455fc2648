"""Scans along rows: lanes run along a tile, a prefix over lanes joins them, a carry joins tiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Load, ScanExpr, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, unflatten
from kernelwright.metal.lower.emit.layout import Block, Line, span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.running import (
    bind_result,
    combination,
    identity,
    kind_of,
    scanned,
    step_of,
    taken,
    word_of,
)
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.body import Rows
from kernelwright.metal.lower.scan.sequence import SequentialRows
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Rowwise, Scan


def lower_scan(graph: Graph, signature: Signature, schedule: Scan) -> Kernel:
    """Write one kernel for a graph of scans along the last axis, with what stands around them.

    Raises:
        UnsupportedError: the graph holds what no scan kernel computes.
    """
    rows, columns = scan_shape(graph)
    if columns % schedule.vector or schedule.lanes == 1 < schedule.vector:
        raise UnsupportedError(
            f"{schedule.lanes} lanes with runs of {schedule.vector} do not scan rows of {columns}; "
            "use vector=1."
        )
    stores = scan_stores(graph, signature, rows, columns)
    loads = [t for t in walk([s.value for s in stores]) if isinstance(t, Load)]
    used = {load.array for load in loads}
    writer = Writer(signature.scalars, taken=signature.taken)
    team = Rowwise(schedule.lanes, schedule.rows, schedule.vector, cached=False)
    shape = _ScannedRows if schedule.lanes > 1 else SequentialRows
    source = shape(writer, stores, team, signature.spelled, columns).write()
    is_sequence = schedule.lanes == 1
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(s.array for s in stores),
        source=source,
        header=header_for(source),
        grid=(rows, 1, 1) if is_sequence else (schedule.lanes, rows, 1),
        threadgroup=(schedule.rows, 1, 1) if is_sequence else (schedule.lanes, schedule.rows, 1),
    )


def scan_shape(graph: Graph) -> tuple[int, int]:
    """Return the rows along which a graph's scans run, and their length.

    Raises:
        UnsupportedError: its scans run along different rows, or not along the last axis.
    """
    found: set[tuple[int, int]] = set()
    for node in _scans(graph):
        type_, axis = graph.types[node.inputs[0]], Call.of(graph, node).integer("axis")
        columns = type_.shape[axis]
        if math.prod(type_.shape[axis % len(type_.shape) :]) != columns:
            raise UnsupportedError(f"{node.op} along an outer axis has no kernel yet.")
        found.add((type_.size // columns, columns))
    if len(found) != 1:
        raise UnsupportedError(f"a kernel scans rows of one shape, found {len(found)}.")
    return found.pop()


def _scans(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if op_named(n.op).kind is Kind.SCAN]


def scan_stores(graph: Graph, signature: Signature, rows: int, columns: int) -> list[Store]:
    """Return what every element of every output is, over a row axis and a column axis.

    Raises:
        UnsupportedError: scans depend on one another, differ in direction, or are too wide.
    """
    builder = Builder(graph, signature.arrays)
    place = Index.of(Axis("row", rows)) * columns + Index.of(Axis(REDUCED_AXIS, columns))
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        if type_.size != rows * columns:
            raise UnsupportedError(f"the output {name} {type_} is not what a scan runs along.")
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    found = scanned(stores)
    if any(isinstance(t, ScanExpr) for s in found for t in walk([s.body])):
        raise UnsupportedError("a scan of a scan is not lowered yet; split the region there.")
    if len({s.is_reverse for s in found}) != 1:
        raise UnsupportedError("scans in both directions are not one kernel; split the region.")
    if any(s.dtype.itemsize not in (2, 4) for s in found):
        raise UnsupportedError(f"simdgroups do not scan {found[0].dtype}; leave it to MLX.")
    return stores


@dataclass(frozen=True, slots=True)
class _Names:
    """The variables of a scan."""

    total: str
    carry: str
    partial: str
    before: str
    kept: str


@dataclass
class _ScannedRows(Rows):
    """One scan kernel being written."""

    names: dict[ScanExpr, _Names] = field(default_factory=dict)

    def write(self) -> str:
        """Return the kernel's body."""
        writer = self.writer
        writer.factors = {self.columns: "columns"} if self.columns > 1 else {}
        writer.taken |= {"columns", "tile"}
        self._pointers()
        for scan in scanned(self.stores):
            self._declare(scan)
        axis = Axis(REDUCED_AXIS, self.columns)
        writer.prepare([s.body for s in self.names] + [s.value for s in self.stores], (axis,))
        if self._tile < self.columns:
            with writer.block(f"for (uint tile = 0; tile < columns; tile += {self._tile})"):
                self._write_tile(axis)
        else:
            self._write_tile(axis)
        return "\n".join([*self._head(), *writer.lines]) + "\n"

    @property
    def _tile(self) -> int:
        """Elements that the lanes take together."""
        return self.team.lanes * self._vector

    @property
    def _is_reverse(self) -> bool:
        return next(iter(self.names)).is_reverse

    def _declare(self, scan: ScanExpr) -> None:
        writer, kind = self.writer, kind_of(scan)
        fresh = writer.fresh
        names = _Names(
            fresh(scan.scanner.value),
            fresh("carry"),
            fresh(f"partial_{scan.scanner}"),
            fresh("before"),
            fresh(f"{scan.scanner}s"),
        )
        self.names[scan] = names
        writer.line(f"{kind} {names.carry} = {identity(scan)};")
        if self.team.simdgroups > 1:
            writer.line(f"threadgroup {kind} {names.partial}[{self.team.simdgroups}];")

    def _write_tile(self, axis: Axis) -> None:
        writer = self.writer
        for scan, names in self.names.items():
            kind = kind_of(scan)
            if self._vector > 1:
                writer.line(f"{kind} {names.kept}[{self._vector}];")
            if not self._is_straight:
                writer.line(f"{kind} {names.total} = {identity(scan)};")
        self._write_place(axis)
        surround(writer, self._around(axis), self._run_along)
        for scan, names in self.names.items():
            text = self._prefix(scan, names)
            writer.line(f"{kind_of(scan)} {names.before} = {text};")
        surround(writer, self._around(axis), self._map_tile)

    def _write_place(self, axis: Axis) -> None:
        """Write where a lane stands: both walks over the tile begin there."""
        turn = "lane" if self._vector == 1 else f"lane * {self._vector}"
        place = f"tile + {turn}" if self._tile < self.columns else turn
        if self._is_reverse and self._vector > 1:
            # Beyond the row's beginning it wraps, and is no place within the row.
            place = f"columns - {self._vector} - {place}".replace(" - tile + ", " - tile - ")
        self.writer.line(f"uint {self._first} = {place};")
        if self._is_reverse and self._vector == 1:
            self.writer.line(f"uint {axis.name} = columns - 1 - {self._first};")

    @property
    def _first(self) -> str:
        """The variable that says where a lane begins."""
        return "start" if self._vector > 1 or self._is_reverse else REDUCED_AXIS

    @property
    def _vector(self) -> int:
        assert isinstance(self.schedule, Rowwise)
        return self.schedule.vector

    @property
    def _is_straight(self) -> bool:
        """True where every lane has exactly one element of every tile."""
        return self._vector == 1 and self.columns % self._tile == 0

    def _around(self, axis: Axis) -> tuple[Line | Block, ...]:
        """Return what surrounds a walk over a lane's part of a tile."""
        parts: list[Line | Block] = []
        if self.columns % self._tile:
            parts.append(Block(f"if ({self._first} < columns)"))
        if self._vector == 1:
            return tuple(parts)
        return (*parts, *span(axis.name, self._vector, is_reverse=self._is_reverse))

    def _runs(self, writer: Writer, roots: Sequence[Store]) -> list[Run]:
        """Reach neighbours through runs."""
        axis = Axis(REDUCED_AXIS, self.columns)
        values = [s.value for s in roots] or [s.body for s in self.names]
        return Span(axis, self._vector).bind(writer, values, roots)

    def _run_along(self, inner: Writer) -> list[Run]:
        runs = self._runs(inner, ())
        inner.prepare([s.body for s in self.names])
        for scan, names in self.names.items():
            text = inner.expression(scan.body).text
            if self._vector == 1:
                if isinstance(scan.body, Load) and scan.body.number not in inner.bound:
                    # Assigning a half to a float converts it without saying so.
                    text = inner.access(scan.body.array, scan.body.offset)
                kind = f"{kind_of(scan)} " if self._is_straight else ""
                inner.line(f"{kind}{names.total} = {taken(scan, text)};")
                continue
            step = step_of(scan, names.total, text)
            keep = f"{names.kept}[k] = {names.total};"
            for line in (step, keep) if scan.is_inclusive else (keep, step):
                inner.line(line)
        return runs

    def _prefix(self, scan: ScanExpr, names: _Names) -> str:
        word = word_of(scan)
        if self.team.simdgroups == 1:
            return f"simd_running_{word}({names.total}, {names.carry}, lane)"
        return (
            f"threadgroup_running_{word}({names.total}, {names.carry}, {names.partial}, simdgroup, "
            f"{self.team.simdgroups}, simd_lane)"
        )

    def _map_tile(self, inner: Writer) -> list[Run]:
        for scan, names in self.names.items():
            kept = f"{names.kept}[k]" if self._vector > 1 else names.total
            is_bare = self._vector == 1 and not scan.is_inclusive
            running = names.before if is_bare else combination(scan, names.before, kept)
            bind_result(inner, scan, running)
        runs = self._runs(inner, self.stores)
        inner.prepare([s.value for s in self.stores])
        for store in self.stores:
            inner.store(store)
        return runs
