"""Few rows times a matrix: every weight is read once, and the results are mapped as they leave."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.family.component import ragged_parts
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, Load, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.layout import Block, Line, span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.gemv.ahead import Ahead
from kernelwright.metal.lower.gemv.merge import (
    merge_kernel,
    partial_sum,
    partial_sums,
    write_results,
)
from kernelwright.metal.lower.gemv.standing import Standing
from kernelwright.metal.lower.gemv.terms import PARTIAL, RESERVED_HERE, TAKEN
from kernelwright.metal.lower.gemv.tiling import Tiling
from kernelwright.metal.lower.program.own_vector import behind_own_vector
from kernelwright.metal.lower.program.side_by_side import part_signature, side_by_side
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Dense as Schedule
from kernelwright.metal.target.msl.precedence import Binding


def lower_dense(
    graph: Graph, schedule: Schedule
) -> tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernel, or the two where several threadgroups share a dot product.

    Returns:
        The names of the arrays, the kernels, and what stands between them.

    Raises:
        UnsupportedError: the graph is none, or the schedule does not divide it.
    """
    signature = Signature.of(graph, RESERVED_HERE)
    if (prologue := prologue_of(graph)) is None:
        return signature, *_written(graph, signature, schedule)
    rest = prologue.rest.bare()
    further: list[Kernel] = []
    between: list[Tensor] = []

    def write(named: Signature) -> Kernel:
        (first, *others), tensors = _written(rest, named, schedule)
        further.extend(others)
        between.extend(tensors)
        return first

    first = behind_own_vector(prologue, signature, write)
    return signature, (first, *further), tuple(between)


def _written(
    graph: Graph, signature: Signature, schedule: Schedule
) -> tuple[tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernels of products whose vectors stand in memory, and what is between them."""
    parts = ragged_parts(graph)
    if parts:
        kernels = [_one(part.bare(), part_signature(signature, part), schedule) for part in parts]
        place = "threadgroup_position_in_grid.x"
        return (side_by_side(graph, kernels, axis=0, attribute=place),), ()
    tiling = Tiling.of(graph, signature, schedule)
    first = _Tiles(graph, signature, tiling).kernel()
    if schedule.chunks == 1:
        return (first,), ()
    return (first, merge_kernel(graph, signature, tiling)), (partial_sums(tiling),)


def _one(graph: Graph, signature: Signature, schedule: Schedule) -> Kernel:
    if schedule.chunks > 1:
        raise UnsupportedError("products side by side are one launch; use chunks=1.")
    return _Tiles(graph, signature, Tiling.of(graph, signature, schedule)).kernel()


class _Tiles:
    """The kernel being written; a threadgroup makes a tile of the columns."""

    def __init__(self, graph: Graph, signature: Signature, tiling: Tiling) -> None:
        self.graph, self.signature, self.tiling = graph, signature, tiling
        self.dense, self.schedule, self.dots = tiling.dense, tiling.schedule, tiling.dots
        self.standing = Standing(tiling)
        self.writer = Writer(
            signature.scalars, taken=TAKEN | {*signature.spelled}, shared=signature.shared
        )
        self.sums = [self.writer.fresh("sums") for _ in self.dots]
        self.partials = [self.writer.fresh("shared_sums") for _ in self.dots]
        self.rows = list(dict.fromkeys(dot.row for dot in self.dots))
        self.row_names: dict[int, str] = {}

    def kernel(self) -> Kernel:
        """Write the kernel."""
        self._declare()
        if self.tiling.is_along:
            self._walk_along()
        else:
            self._walk_across()
        self._leave_sums()
        self._finish()
        source = "\n".join([*self.standing.head(self.writer), *self.writer.lines]) + "\n"
        roots = [t for dot in self.dots for t in (dot.row, dot.weight)]
        chunks = self.schedule.chunks
        stores = self.tiling.stores if chunks == 1 else ()
        written = walk([*roots, *(s.value for s in stores)])
        loads = {t.array for t in written if isinstance(t, Load)}
        groups = -(-self.dense.column.extent // self.tiling.tile)
        return Kernel(
            name=kernel_name(self.graph),
            inputs=tuple(name for name, _ in self.signature.inputs if name in loads),
            outputs=tuple(s.array for s in stores) or (PARTIAL,),
            source=source,
            header=header_for(source),
            grid=(self.tiling.threads * groups, self.dense.matrices, chunks),
            threadgroup=(self.tiling.threads, 1, 1),
        )

    def _declare(self) -> None:
        tokens, own = self.dense.tokens, self._own_columns
        dimensions = "".join(f"[{n}]" for n in (tokens, own) if n > 1)
        self.writer.define_places([t for dot in self.dots for t in (dot.row, dot.weight)])
        for name in self.sums:
            self.writer.line(f"float {name}{dimensions} = {'{}' if dimensions else '0.0f'};")

    @property
    def _own_columns(self) -> int:
        return self.schedule.columns if self.tiling.is_along else self.schedule.vector

    def _place(self, counter: str) -> str:
        """Return where a lane's sum of a token and a column stands."""
        token = "[token]" if self.dense.tokens > 1 else ""
        return token + (f"[{counter}]" if self._own_columns > 1 else "")

    def _walk_along(self) -> None:
        vector = self.schedule.vector
        name = "start" if vector > 1 else "depth"
        first, step = self.standing.first_along, self.tiling.step * self.tiling.parts
        head = f"for (uint {name} = {first}; {name} < {self.dense.depth}; {name} += {step})"
        around = span("depth", vector, "i") if vector > 1 else ()
        axis = Axis("depth", self.dense.depth)
        with self.writer.block(head):
            self._read_rows(around, Span(axis, vector, counter="i"))
            with self._each(self.writer, "c", self.schedule.columns):
                if self.schedule.columns > 1:
                    self.writer.line("uint column = first + c;")
                self._multiply(around, Span(axis, vector, counter="i"), "c")

    def _walk_across(self) -> None:
        columns, terms = self.dense.column.extent, self.schedule.terms
        run = Span(Axis("column", columns), self.schedule.vector, counter="i")
        with self._where_columns_are(columns):
            first, last = self.standing.share_across
            depth = Axis("depth", self.dense.depth)
            if terms == 1:
                step = f"depth += {self.tiling.slots}" if self.tiling.slots > 1 else "++depth"
                with self.writer.block(f"for (uint depth = {first}; depth < {last}; {step})"):
                    self._read_rows((), Span(depth, 1))
                    self._multiply(self._around_columns, run, "i")
                return
            self._walk_ahead(first, last, run)

    def _walk_ahead(self, first: str, last: str, run: Span) -> None:
        """Walk over several terms at a time, the next ones being read meanwhile."""
        terms = self.schedule.terms
        weights = [dot.weight for dot in self.dots]
        ahead = Ahead.of(self.writer, weights, run, terms)
        self.writer.line(f"uint first = {first};")
        self.writer.line(f"uint last = {last};")
        ahead.begin("first")
        each_term = f"for (uint j = 0; j < {terms}; ++j)"
        depth = Line("uint depth = base + j;", "depth")
        row = Span(Axis("depth", self.dense.depth), terms, counter="j", first="base")
        step = self.tiling.step
        with self.writer.block(f"for (uint base = first; base < last; base += {step})"):
            self._read_rows((Block(each_term, is_span=True), depth), row)
            with self.writer.block(each_term):
                ahead.go_on(step)
                self._multiply((depth, *self._around_columns), run, "i")

    @property
    def _around_columns(self) -> tuple[Line | Block, ...]:
        vector = self.schedule.vector
        return span("column", vector, "i") if vector > 1 else ()

    @contextmanager
    def _where_columns_are(self, columns: int) -> Iterator[None]:
        """Leave out lanes behind the last column."""
        if columns % self.tiling.tile == 0:
            yield
            return
        name = "start" if self.schedule.vector > 1 else "column"
        with self.writer.block(f"if ({name} < {columns})"):
            yield

    def _read_rows(self, around: Sequence[Line | Block], run: Span) -> None:
        """Keep a run of every row, converted once for all columns."""
        tokens, length = self.dense.tokens, max(1, run.width)
        for row in self.rows:
            dimensions = "".join(f"[{n}]" for n in (tokens, length) if n > 1)
            name = self.writer.fresh(f"{row.name}s" if dimensions else row.name)
            self.row_names[row.number] = name
            if dimensions:
                self.writer.line(f"float {name}{dimensions};")
            target = f"{name}{self._row_place}"

            def body(inner: Writer, row: Expr = row, target: str = target) -> list[Run]:
                runs = run.bind(inner, [row], ())
                inner.prepare([row])
                kind = "" if "[" in target else "float "
                inner.line(f"{kind}{target} = {self._read(inner, row)};")
                return runs

            with self._each(self.writer, "token", tokens):
                surround(self.writer, around, body)

    def _read(self, writer: Writer, term: Expr) -> str:
        """Return a term as what a float takes, which converts it without saying so."""
        if isinstance(term, Load) and term.number not in writer.bound:
            return writer.access(term.array, term.offset)
        return writer.expression(term).text

    @property
    def _row_place(self) -> str:
        """Return where a lane keeps an element of a row."""
        is_along, schedule = self.tiling.is_along, self.schedule
        length, counter = (schedule.vector, "i") if is_along else (schedule.terms, "j")
        token = "[token]" if self.dense.tokens > 1 else ""
        return token + (f"[{counter}]" if length > 1 else "")

    def _multiply(self, around: Sequence[Line | Block], run: Span, counter: str) -> None:
        weights = list(dict.fromkeys(dot.weight for dot in self.dots))

        def body(inner: Writer) -> list[Run]:
            runs = run.bind(inner, weights, ())
            inner.prepare(weights)
            for dot, total in zip(self.dots, self.sums, strict=True):
                many = self.dense.tokens > 1
                if many:
                    weight = inner.named(dot.weight)
                else:
                    weight = inner.expression(dot.weight).inside(Binding.MULTIPLY)
                row = self.row_names[dot.row.number] + self._row_place
                with self._each(inner, "token", self.dense.tokens):
                    inner.line(f"{total}{self._place(counter)} += {row} * {weight};")
            return runs

        surround(self.writer, around, body)

    def _leave_sums(self) -> None:
        """Leave every simdgroup's sums where the whole threadgroup sees them."""
        tokens, strips = self.dense.tokens, self.schedule.strips
        dimensions = "".join(f"[{n}]" for n in (strips, tokens) if n > 1) + f"[{self.tiling.tile}]"
        for name in self.partials:
            self.writer.line(f"threadgroup float {name}{dimensions};")
        place = self.standing.shared("strip", self.standing.column_in_tile)
        counter = "c" if self.tiling.is_along else "i"
        with (
            self._each(self.writer, "token", tokens),
            self._each(self.writer, counter, self._own_columns),
        ):
            totals = [f"{total}{self._place(counter)}" for total in self.sums]
            with self._joined(totals):
                for total, partial in zip(totals, self.partials, strict=True):
                    self.writer.line(f"{partial}{place} = {total};")
        self.writer.line("// Every simdgroup's sums are written before any is read.")
        self.writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")

    @contextmanager
    def _joined(self, totals: Sequence[str]) -> Iterator[None]:
        """Add up what lanes of a simdgroup have of the same columns; the first has it all."""
        lanes = 1 if self.tiling.is_along else self.schedule.lanes
        if lanes == 32:
            yield
            return
        for total in totals:
            joined = "metal::simd_sum(" if lanes == 1 else f"lanes_sum<32, {lanes}>("
            self.writer.line(f"{total} = {joined}{total});")
        with self.writer.block("if (lane == 0)" if self.tiling.is_along else "if (slot == 0)"):
            yield

    def _finish(self) -> None:
        """Add the strips up and write what becomes of the results, an element a thread."""
        tile, columns = self.tiling.tile, self.dense.column.extent
        with self._threads_over(self.dense.tokens * tile), ExitStack() as inside:
            if self.dense.tokens > 1:
                self.writer.line(f"uint token = place / {tile};")
            place = f"place % {tile}" if self.dense.tokens > 1 else "place"
            self.writer.line(f"uint result = threadgroup_position_in_grid.x * {tile} + {place};")
            if columns % tile:
                inside.enter_context(self.writer.block(f"if (result < {columns})"))
            for dot, partial in zip(self.tiling.totals, self.partials, strict=True):
                self._add_strips(dot, partial, place)
            if self.schedule.chunks == 1:
                write_results(self.writer, self.tiling.stores)
                return
            for number, dot in enumerate(self.tiling.totals):
                place = partial_sum(self.writer, self.tiling, number)
                self.writer.line(f"{place} = {self.writer.bound[dot.number]};")

    def _add_strips(self, dot: Expr, partial: str, place: str) -> None:
        total = self.writer.fresh("total")
        if self.schedule.strips == 1:
            self.writer.line(f"float {total} = {partial}{self.standing.shared('', place)};")
        else:
            self.writer.line(f"float {total} = 0.0f;")
            count = self.schedule.strips
            with self.writer.block(f"for (uint other = 0; other < {count}; ++other)"):
                self.writer.line(f"{total} += {partial}{self.standing.shared('other', place)};")
        self.writer.bind(dot, total)

    @contextmanager
    def _threads_over(self, elements: int) -> Iterator[None]:
        """Let each thread of a threadgroup take elements in turn."""
        threads = self.tiling.threads
        mine = "uint place = thread_index_in_threadgroup"
        if elements > threads:
            with self.writer.block(f"for ({mine}; place < {elements}; place += {threads})"):
                yield
            return
        self.writer.line(f"{mine};")
        with ExitStack() as blocks:
            if elements < threads:
                blocks.enter_context(self.writer.block(f"if (place < {elements})"))
            yield

    @contextmanager
    def _each(self, writer: Writer, counter: str, count: int) -> Iterator[None]:
        """Write a loop, or nothing around a single turn."""
        if count == 1:
            yield
            return
        with writer.block(f"for (uint {counter} = 0; {counter} < {count}; ++{counter})"):
            yield
