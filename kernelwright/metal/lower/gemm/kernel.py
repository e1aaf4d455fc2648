"""Tiles of a product on simdgroup matrices: operands made as they are staged, results mapped."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, walk
from kernelwright.metal.lower.emit.simdgroup_matrix import SIDE, Matrices, MatrixWriter
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.gemv.terms import RESERVED_HERE, TAKEN, Dense, Dot, runs_along_depth
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Matmul
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_BARRIER = "threadgroup_barrier(metal::mem_flags::mem_threadgroup);"


def lower_matmul(
    graph: Graph, schedule: Matmul
) -> tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernel of a graph around matrix products of many rows.

    Returns:
        The names of the arrays, the kernel, and nothing between kernels.

    Raises:
        UnsupportedError: the graph is none.
    """
    signature = Signature.of(graph, RESERVED_HERE)
    return (
        signature,
        (_Products(graph, signature, Tiles.of(graph, signature, schedule)).kernel(),),
        (),
    )


@dataclass(frozen=True)
class Tiles:
    """How a schedule divides products into tiles."""

    dense: Dense
    stores: tuple[Store, ...]
    """What is written of the element `result` of a row."""
    totals: tuple[Expr, ...]
    """The dot products of that element."""
    schedule: Matmul

    @classmethod
    def of(cls, graph: Graph, signature: Signature, schedule: Matmul) -> "Tiles":
        """Divide the products of a graph.

        Raises:
            UnsupportedError: no output is made of one, or a tile has no whole matrices.
        """
        if schedule.depth % SIDE:
            raise UnsupportedError(f"a tile's depth is a multiple of 8, found {schedule.depth}.")
        dense, last = Dense.of(graph, signature), Dense.of(graph, signature, "result")
        dense.stores(signature)
        stores = tuple(last.stores(signature))
        if not dense.dots:
            raise UnsupportedError("no output is made of a matrix product.")
        return cls(dense, stores, tuple(d.total for d in last.dots.values()), schedule)

    def scheduled(self, schedule: Matmul) -> "Tiles":
        """Return the same products in other tiles."""
        return replace(self, schedule=schedule)

    @cached_property
    def dots(self) -> tuple[Dot, ...]:
        """The dot products of an output element."""
        return tuple(self.dense.dots.values())

    @property
    def rows(self) -> int:
        """Rows of a tile of results."""
        return SIDE * self.schedule.rows

    @property
    def columns(self) -> int:
        """Columns of a tile of results."""
        return SIDE * self.schedule.columns * self.schedule.simdgroups

    @property
    def threads(self) -> int:
        """Threads of a threadgroup."""
        return 32 * self.schedule.simdgroups

    @property
    def stored(self) -> Dtype:
        """The type in which tiles are staged: the operands' own where they are only read."""
        operands = [t for dot in self.dots for t in (dot.row, dot.weight)]
        found = {t.stored if isinstance(t, Load) else Dtype.FLOAT32 for t in operands}
        return found.pop() if len(found) == 1 else Dtype.FLOAT32

    @property
    def row_terms(self) -> tuple[Expr, ...]:
        """The different rows that meet matrices."""
        return tuple(dict.fromkeys(dot.row for dot in self.dots))

    @property
    def registers(self) -> int:
        """Two elements a lane of every simdgroup matrix."""
        schedule = self.schedule
        return 2 * (len(self.dots) * schedule.rows * schedule.columns + schedule.rows + 1)

    @property
    def threadgroup_bytes(self) -> int:
        """Bytes of the staged tiles and of the results."""
        depth, dots = self.schedule.depth, len(self.dots)
        staged = self.rows * depth * len(self.row_terms) + self.columns * depth * dots
        return staged * self.stored.itemsize + 4 * self.rows * self.columns * dots


class _Products:
    """The kernel being written; a threadgroup makes one tile of results."""

    def __init__(self, graph: Graph, signature: Signature, tiles: Tiles) -> None:
        self.graph, self.signature, self.tiles = graph, signature, tiles
        self.dense, self.schedule, self.dots = tiles.dense, tiles.schedule, tiles.dots
        words = frozenset({"base", "inner", "m", "n", "simdgroup"})
        self.writer = Writer(signature.scalars, taken=TAKEN | words | {*signature.spelled})
        self.matrices = MatrixWriter(self.writer)
        self.sums = [self.writer.fresh("sums") for _ in self.dots]
        self.results = [self.writer.fresh("results") for _ in self.dots]
        self.row_tiles = {t.number: self._tile_name(t, "row") for t in tiles.row_terms}
        self.weight_tiles = [self._tile_name(dot.weight, "weight") for dot in self.dots]
        self.is_along = [runs_along_depth([dot]) for dot in self.dots]

    def _tile_name(self, term: Expr, role: str) -> str:
        return self.writer.fresh(f"{term.array if isinstance(term, Load) else role}_tile")

    def kernel(self) -> Kernel:
        """Write the kernel."""
        self._clear_sums()
        self._declare_tiles()
        depth = self.schedule.depth
        head = f"for (uint base = 0; base < {self.dense.depth}; base += {depth})"
        with self.writer.block(head):
            self._stage()
            self.writer.line("// The tiles are written before any simdgroup reads them.")
            self.writer.line(_BARRIER)
            with self.writer.block(f"for (uint inner = 0; inner < {depth}; inner += {SIDE})"):
                self._multiply()
            self.writer.line("// They are read before the next ones take their place.")
            self.writer.line(_BARRIER)
        self._store_sums()
        self._finish()
        lines = ["uint simdgroup = simdgroup_index_in_threadgroup;"]
        if self.writer.mentions("matrix"):
            lines.insert(0, "uint matrix = threadgroup_position_in_grid.z;")
        source = "\n".join([*lines, *self.writer.lines]) + "\n"
        roots = [t for dot in self.dots for t in (dot.row, dot.weight)]
        written = walk([*roots, *(s.value for s in self.tiles.stores)])
        loads = {t.array for t in written if isinstance(t, Load)}
        columns = -(-self.dense.column.extent // self.tiles.columns)
        rows = -(-self.dense.tokens // self.tiles.rows)
        return Kernel(
            name=kernel_name(self.graph),
            inputs=tuple(name for name, _ in self.signature.inputs if name in loads),
            outputs=tuple(s.array for s in self.tiles.stores),
            source=source,
            header=header_for(source),
            grid=(self.tiles.threads * columns, rows, self.dense.matrices),
            threadgroup=(self.tiles.threads, 1, 1),
        )

    @property
    def _at_sum(self) -> str:
        return self._at_row + ("[n]" if self.schedule.columns > 1 else "")

    @property
    def _at_row(self) -> str:
        return "[m]" if self.schedule.rows > 1 else ""

    @property
    def _first_column(self) -> str:
        """Return where in its tile the columns of one of a simdgroup's matrices begin."""
        columns = self.schedule.columns
        if columns == 1:
            return f"simdgroup * {SIDE}"
        return f"(simdgroup * {columns} + n) * {SIDE}"

    def _clear_sums(self) -> None:
        counts = (self.schedule.rows, self.schedule.columns)
        shape = "".join(f"[{n}]" for n in counts if n > 1)
        for name in self.sums:
            self.writer.line(f"metal::simdgroup_matrix<float, 8, 8> {name}{shape};")
        with self.matrices.each_of(self.schedule.rows, self.schedule.columns):
            for name in self.sums:
                filled = "metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f)"
                self.writer.line(f"{name}{self._at_sum} = {filled};")

    def _declare_tiles(self) -> None:
        kind, depth = MSL_TYPE[self.tiles.stored], self.schedule.depth
        for name in self.row_tiles.values():
            self.writer.line(f"threadgroup {kind} {name}[{self.tiles.rows * depth}];")
        for name in self.weight_tiles:
            self.writer.line(f"threadgroup {kind} {name}[{self.tiles.columns * depth}];")

    def _stage(self) -> None:
        """Bring a tile of every operand into threadgroup memory, zeros behind the edges."""
        depth = self.schedule.depth
        token = f"threadgroup_position_in_grid.y * {self.tiles.rows} + place / {depth}"
        column = f"threadgroup_position_in_grid.x * {self.tiles.columns} + "
        inner = f"base + place % {depth}"
        for term in self.tiles.row_terms:
            with self._threads_over(self.tiles.rows * depth):
                self.writer.line(f"uint token = {token};")
                self.writer.line(f"uint depth = {inner};")
                self._write_staged(self.row_tiles[term.number], term, "token")
        for dot, name, is_along in zip(self.dots, self.weight_tiles, self.is_along, strict=True):
            with self._threads_over(self.tiles.columns * depth):
                if is_along:
                    self.writer.line(f"uint column = {column}place / {depth};")
                    self.writer.line(f"uint depth = {inner};")
                else:
                    self.writer.line(f"uint column = {column}place % {self.tiles.columns};")
                    self.writer.line(f"uint depth = base + place / {self.tiles.columns};")
                self._write_staged(name, dot.weight, "column")

    def _write_staged(self, tile: str, term: Expr, outer: str) -> None:
        sizes = {
            "token": (self.dense.tokens, self.tiles.rows),
            "column": (self.dense.column.extent, self.tiles.columns),
            "depth": (self.dense.depth, self.schedule.depth),
        }
        inside = [f"{n} < {sizes[n][0]}" for n in (outer, "depth") if sizes[n][0] % sizes[n][1]]
        if not inside:
            self.writer.prepare([term])
            self.writer.line(f"{tile}[place] = {self._element(term)};")
            return
        self.writer.line(f"{tile}[place] = {self._zero};")
        with self.writer.block(f"if ({' && '.join(inside)})"):
            self.writer.prepare([term])
            self.writer.line(f"{tile}[place] = {self._element(term)};")

    @property
    def _zero(self) -> str:
        kind = self.tiles.stored
        return f"{MSL_TYPE[kind]}(0.0f)" if kind is Dtype.BFLOAT16 else "0.0f"

    def _element(self, term: Expr) -> str:
        """Return a term as its tile stores it."""
        if isinstance(term, Load) and term.number not in self.writer.bound:
            return self.writer.access(term.array, term.offset)
        return self.writer.expression(term).text

    def _multiply(self) -> None:
        writer, schedule, depth = self.writer, self.schedule, self.schedule.depth
        kind, rows = MSL_TYPE[self.tiles.stored], schedule.rows
        lefts = {n: Matrices(writer.fresh("left"), rows, 1) for n in self.row_tiles}
        for number, tile in self.row_tiles.items():
            self.matrices.declare_factors(kind, lefts[number])
            with self.matrices.each("m", rows):
                start = f"{tile} + m * {SIDE * depth}" if rows > 1 else tile
                self.matrices.load_row(lefts[number], f"{start} + inner", depth)
        with self.matrices.each("n", schedule.columns):
            writer.line(f"uint first = {self._first_column};")
            for dot, tile, sums, is_along in zip(
                self.dots, self.weight_tiles, self.sums, self.is_along, strict=True
            ):
                weight = writer.fresh("right")
                if is_along:
                    place = f"{tile} + first * {depth} + inner, {depth}, ulong2(0), true"
                else:
                    place = f"{tile} + inner * {self.tiles.columns} + first, {self.tiles.columns}"
                self.matrices.load(kind, weight, place)
                totals = Matrices(sums, rows, schedule.columns)
                self.matrices.multiply(lefts[dot.row.number], weight, totals)

    def _store_sums(self) -> None:
        columns = self.tiles.columns
        for name in self.results:
            self.writer.line(f"threadgroup float {name}[{self.tiles.rows * columns}];")
        with self.matrices.each_of(self.schedule.rows, self.schedule.columns):
            for sums, results in zip(self.sums, self.results, strict=True):
                start = f"{results} + m * {SIDE * columns}" if self._at_row else results
                store = f"{sums}{self._at_sum}, {start} + {self._first_column}, {columns}"
                self.writer.line(f"metal::simdgroup_store({store});")
        self.writer.line("// Every result is written before any is read.")
        self.writer.line(_BARRIER)

    def _finish(self) -> None:
        """Write what becomes of the results, an element a thread."""
        rows, columns = self.tiles.rows, self.tiles.columns
        with self._threads_over(rows * columns), ExitStack() as inside:
            y, x = "threadgroup_position_in_grid.y", "threadgroup_position_in_grid.x"
            self.writer.line(f"uint token = {y} * {rows} + place / {columns};")
            self.writer.line(f"uint result = {x} * {columns} + place % {columns};")
            pairs = (
                ("token", self.dense.tokens, rows),
                ("result", self.dense.column.extent, columns),
            )
            edges = [f"{name} < {size}" for name, size, tile in pairs if size % tile]
            if edges:
                inside.enter_context(self.writer.block(f"if ({' && '.join(edges)})"))
            for total, results in zip(self.tiles.totals, self.results, strict=True):
                name = self.writer.fresh("total")
                self.writer.line(f"float {name} = {results}[place];")
                self.writer.bind(total, name)
            values = [s.value for s in self.tiles.stores]
            offsets = [t.offset for t in walk(values) if isinstance(t, Load)]
            offsets += [s.offset for s in self.tiles.stores]
            self.writer.share_offsets(offsets, "element")
            self.writer.prepare(values)
            for store in self.tiles.stores:
                self.writer.store(store)

    @contextmanager
    def _threads_over(self, elements: int) -> Iterator[None]:
        """Let each thread of a threadgroup take elements in turn."""
        mine = "uint place = thread_index_in_threadgroup"
        head = f"for ({mine}; place < {elements}; place += {self.tiles.threads})"
        with self.writer.block(head):
            yield
