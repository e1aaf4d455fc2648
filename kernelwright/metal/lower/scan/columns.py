"""Scans along an outer axis: threads take neighbouring results, strips parts of each tile."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Expr, Load, ScanExpr, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, unflatten
from kernelwright.metal.lower.emit.layout import Block, Line, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.running import (
    bind_result,
    combination,
    identity,
    kind_of,
    scanned,
    step_of,
)
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import ColumnScan

_LANES = 32


@dataclass(frozen=True, slots=True)
class ScanShape:
    """Planes of `length` rows of `columns` neighbours; the scan runs from row to row."""

    planes: int
    length: int
    columns: int


def column_scan_shape(graph: Graph) -> ScanShape:
    """Return along what a graph's scans run.

    Raises:
        UnsupportedError: they run along several axes.
    """
    found: set[tuple[tuple[int, ...], int]] = set()
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.SCAN:
            shape = graph.types[node.inputs[0]].shape
            found.add((shape, Call.of(graph, node).integer("axis") % len(shape)))
    if len(found) != 1:
        raise UnsupportedError(f"a kernel scans along one axis, found {len(found)}.")
    ((shape, axis),) = found
    return ScanShape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def lower_column_scan(graph: Graph, signature: Signature, schedule: ColumnScan) -> Kernel:
    """Write one kernel for a graph of scans along an outer axis, with what stands around them.

    Raises:
        UnsupportedError: the graph holds what no scan kernel computes, or runs do not divide.
    """
    shape = column_scan_shape(graph)
    if shape.columns % schedule.vector:
        raise UnsupportedError(
            f"{shape.columns} neighbouring results are no runs of {schedule.vector}; use vector=1."
        )
    stores = column_scan_stores(graph, signature, schedule)
    writer = Writer(signature.scalars, taken=signature.taken | {"rows", "place"})
    source = _ColumnScan(writer, stores, schedule, shape).write()
    used = {t.array for t in walk([s.value for s in stores]) if isinstance(t, Load)}
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for s in stores)),
        source=source,
        header=header_for(source),
        grid=(shape.columns // schedule.vector, schedule.strips, shape.planes),
        threadgroup=(_LANES, schedule.strips, 1),
    )


def column_scan_stores(graph: Graph, signature: Signature, schedule: ColumnScan) -> list[Store]:
    """Return what every element of every output is, over planes, rows and runs of columns.

    Raises:
        UnsupportedError: scans depend on one another, differ in direction, or are too wide.
    """
    shape = column_scan_shape(graph)
    builder = Builder(graph, signature.arrays)
    run = Index.of(Axis("run", shape.columns // schedule.vector)) * schedule.vector
    places = [
        Index.of(Axis("plane", shape.planes)),
        Index.of(Axis(REDUCED_AXIS, shape.length)),
        run + Index.of(Axis("k", schedule.vector)),
    ]
    place = flatten(places, [shape.planes, shape.length, shape.columns])
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        if type_.size != shape.planes * shape.length * shape.columns:
            raise UnsupportedError(f"the output {name} {type_} is not what a scan runs along.")
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    found = scanned(stores)
    if any(isinstance(t, ScanExpr) for s in found for t in walk([s.body])):
        raise UnsupportedError("a scan of a scan is not lowered yet; split the region there.")
    if len({s.is_reverse for s in found}) != 1:
        raise UnsupportedError("scans in both directions are not one kernel; split the region.")
    if any(s.dtype.itemsize not in (2, 4) for s in found):
        raise UnsupportedError(f"no kernel scans {found[0].dtype}; leave it to MLX.")
    return stores


@dataclass(frozen=True, slots=True)
class _Names:
    """The variables of a scan."""

    kept: str
    total: str
    before: str
    carry: str
    partial: str


@dataclass
class _ColumnScan:
    """One kernel being written."""

    writer: Writer
    stores: Sequence[Store]
    schedule: ColumnScan
    shape: ScanShape
    names: dict[ScanExpr, _Names] = field(default_factory=dict)

    @property
    def _tile(self) -> int:
        """Rows that the strips take together."""
        return self.schedule.strips * self.schedule.depth

    def write(self) -> str:
        """Return the kernel's body."""
        writer, vector = self.writer, self.schedule.vector
        axis = Axis(REDUCED_AXIS, self.shape.length)
        for scan in scanned(self.stores):
            self._declare(scan)
        varying = (axis, Axis("k", vector))
        writer.prepare([s.body for s in self.names] + [s.value for s in self.stores], varying)
        with writer.block(f"for (uint tile = 0; tile < {self.shape.length}; tile += {self._tile})"):
            for scan, names in self.names.items():
                kind = kind_of(scan)
                writer.line(f"{kind} {names.kept}[{self.schedule.depth}][{vector}];")
                writer.line(f"{kind} {names.total}[{vector}];")
                self._each(f"{names.total}[k] = {identity(scan)};")
            surround(writer, self._along(), lambda inner: self._over_run(inner, self._run_along))
            self._join()
            surround(writer, self._along(), lambda inner: self._over_run(inner, self._map))
        head = [
            "uint run = thread_position_in_grid.x;",
            "uint strip = thread_position_in_threadgroup.y;",
            "uint lane = thread_position_in_threadgroup.x;",
        ]
        if writer.mentions("plane"):
            head.append("uint plane = thread_position_in_grid.z;")
        return "\n".join([*head, *writer.lines]) + "\n"

    def _declare(self, scan: ScanExpr) -> None:
        writer, kind, vector = self.writer, kind_of(scan), self.schedule.vector
        fresh, word = writer.fresh, scan.scanner.value
        names = _Names(
            fresh(f"{word}s"),
            fresh(word),
            fresh("before"),
            fresh("carry"),
            fresh(f"partial_{word}"),
        )
        self.names[scan] = names
        writer.line(f"{kind} {names.carry}[{vector}];")
        self._each(f"{names.carry}[k] = {identity(scan)};")
        shape = f"[{self.schedule.strips}][{_LANES * vector}]"
        writer.line(f"threadgroup {kind} {names.partial}{shape};")

    def _each(self, *lines: str) -> None:
        """Write lines for every neighbour of a run."""
        with self.writer.block(f"for (uint k = 0; k < {self.schedule.vector}; ++k)"):
            for line in lines:
                self.writer.line(line)

    def _along(self) -> tuple[Line | Block, ...]:
        """Return what surrounds a walk over a strip's rows of a tile."""
        length, depth = self.shape.length, self.schedule.depth
        is_reverse = next(iter(self.names)).is_reverse
        parts: list[Line | Block] = [Block(f"for (uint depth = 0; depth < {depth}; ++depth)")]
        parts.append(Line(f"uint place = tile + strip * {depth} + depth;", "place"))
        if length % self._tile:
            parts.append(Block(f"if (place < {length})"))
        turned = f"{length - 1} - place" if is_reverse else "place"
        return (*parts, Line(f"uint {REDUCED_AXIS} = {turned};", REDUCED_AXIS))

    def _over_run(self, outer: Writer, body: Callable[[Writer], list[Run]]) -> list[Run]:
        vector = self.schedule.vector
        roots = [s.body for s in self.names] + [s.value for s in self.stores]
        outer.prepare([r for r in roots if not _has_scan(r)], (Axis("k", vector),))
        around = Block(f"for (uint k = 0; k < {vector}; ++k)", is_span=True)
        surround(outer, (around,), body)
        return []

    def _run_along(self, inner: Writer) -> list[Run]:
        bodies = [s.body for s in self.names]
        runs = self._span.bind(inner, bodies, ())
        inner.prepare(bodies)
        for scan, names in self.names.items():
            text = inner.expression(scan.body).text
            step = step_of(scan, f"{names.total}[k]", text)
            keep = f"{names.kept}[depth][k] = {names.total}[k];"
            for line in (step, keep) if scan.is_inclusive else (keep, step):
                inner.line(line)
        return runs

    @property
    def _span(self) -> Span:
        vector = self.schedule.vector
        return Span(Axis("k", vector), vector, first="")

    def _join(self) -> None:
        """Write what each strip begins a tile with, and what the next tile begins with."""
        writer, strips, vector = self.writer, self.schedule.strips, self.schedule.vector
        for names in self.names.values():
            self._each(f"{names.partial}[strip][lane * {vector} + k] = {names.total}[k];")
        writer.line("// Every strip's total is written before any is read.")
        writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
        for scan, names in self.names.items():
            writer.line(f"{kind_of(scan)} {names.before}[{vector}];")
            value = f"{names.partial}[other][lane * {vector} + k]"
            joined = combination(scan, f"{names.carry}[k]", value)
            with (
                writer.block(f"for (uint k = 0; k < {vector}; ++k)"),
                writer.block(f"for (uint other = 0; other < {strips}; ++other)"),
            ):
                with writer.block("if (other == strip)"):
                    writer.line(f"{names.before}[k] = {names.carry}[k];")
                writer.line(f"{names.carry}[k] = {joined};")
        if self._tile < self.shape.length:
            writer.line("// Every strip has read the totals before the next tile's replace them.")
            writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")

    def _map(self, inner: Writer) -> list[Run]:
        values = [s.value for s in self.stores]
        for scan, names in self.names.items():
            running = combination(scan, f"{names.before}[k]", f"{names.kept}[depth][k]")
            bind_result(inner, scan, running)
        runs = self._span.bind(inner, values, self.stores)
        inner.prepare(values)
        for store in self.stores:
            inner.store(store)
        return runs


def _has_scan(term: Expr) -> bool:
    return any(isinstance(t, ScanExpr) for t in walk([term]))
