"""Attention by online softmax: simdgroups walk along keys, and merge what each of them found."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, Load, always, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.attention.layout import Layout
from kernelwright.metal.lower.attention.merging import (
    Parts,
    merge_kernel,
    result_of,
    temporaries,
    write_part,
    write_results,
)
from kernelwright.metal.lower.attention.part import Leaving
from kernelwright.metal.lower.attention.registers import Registers, each
from kernelwright.metal.lower.attention.terms import RESERVED_HERE, TAKEN, Attended
from kernelwright.metal.lower.attention.weight import Weighing, own_position, own_query
from kernelwright.metal.lower.emit.layout import Block, Line, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.lower.term.operator import exponential_for
from kernelwright.metal.schedule import Attention
from kernelwright.metal.target.msl.precedence import Binding

_INNER = {"position", "first", "slot", "j", "feature"}
"""Variables that a pointer to a key head's keys and values leaves open."""


def lower_attention(
    graph: Graph, schedule: Attention, *, is_open: bool = False
) -> tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernel, or the two where several threadgroups share a query's keys.

    With `is_open` what hangs on the number of keys in other ways than by a factor is computed by
    the kernel, from `keys`.

    Returns:
        The names of the arrays, the kernels, and what stands between them.

    Raises:
        UnsupportedError: the graph is no attention, or the schedule does not divide it.
    """
    signature = Signature.of(graph, RESERVED_HERE)
    layout = Layout.of(Attended.of(graph, signature), schedule)
    first = KeyWalk(graph, signature, layout, is_open=is_open).kernel()
    if layout.chunks == 1:
        return signature, (first,), ()
    merge = merge_kernel(graph, signature, layout.chunks)
    return signature, (first, merge), temporaries(layout.attended.sizes, layout.chunks)


class KeyWalk:
    """The kernel that walks along keys."""

    def __init__(
        self, graph: Graph, signature: Signature, layout: Layout, *, is_open: bool = False
    ) -> None:
        self.is_open = is_open
        self.graph, self.signature, self.layout = graph, signature, layout
        self.attended, self.schedule = layout.attended, layout.schedule
        size = self.attended.sizes
        self.size = size
        self.writer = Writer(signature.scalars, taken=TAKEN | {*signature.spelled})
        blocks = Axis("block", size.rows // self.schedule.queries)
        self.group = Index.of(Axis("group", size.groups))
        self.row = Axis("row", self.schedule.queries)
        self.first_row = self.group * size.rows + Index.of(blocks) * self.schedule.queries
        self.registers = Registers(layout)
        self.position = Axis("position", size.keys)
        self.exponential = exponential_for(graph)

    def kernel(self) -> Kernel:
        """Write the kernel."""
        self._terms()
        self._pointers()
        self._read_queries()
        self._declare()
        self._walk()
        Leaving(self.writer, self.registers, self.weighing).write()
        outputs = self._merge()
        source = "\n".join([*self._head(), *self.writer.lines]) + "\n"
        roots = [self.query, self.key, self.value, self.weighing.score]
        loads = {t.array for t in walk([*roots, *self.written]) if isinstance(t, Load)}
        threads, size = 32 * self.schedule.simdgroups, self.size
        return Kernel(
            name=kernel_name(self.graph),
            inputs=tuple(name for name, _ in self.signature.inputs if name in loads),
            outputs=outputs,
            source=source,
            header=header_for(source),
            grid=(threads * self.layout.chunks, size.rows // self.schedule.queries, size.groups),
            threadgroup=(threads, 1, 1),
        )

    def _terms(self) -> None:
        attended, size = self.attended, self.size
        self.features = (Axis("feature", size.head), Axis("feature", size.width))
        key, value = (Index.of(axis) for axis in self.features)
        position = self._turn() if self._is_turned else Index.of(self.position)
        held = Axis("row" if self.layout.deal.queries == 1 else "query", self.schedule.queries)
        query = attended.scaled_query(self._flat(held), key)
        self.key, factor = attended.factored_key(self.group, position, key)
        self.query = attended.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "scaled", query, factor)
        self.value = attended.value(self.group, position, value)
        self.weighing = self._weighing()
        self.written: list[Expr] = []

    def _weighing(self) -> Weighing:
        """Say what becomes of a product, and which lane finds out."""
        attended, deal = self.attended, self.layout.deal
        query = Axis(own_query(deal), self.schedule.queries)
        position = Axis(own_position(deal), self.size.keys)
        product = attended.terms.held("product", Dtype.FLOAT32, [query, position])
        score = attended.score(product, self._flat(query), Index.of(position), is_scaled=True)
        return Weighing(self.writer, self.registers, product, score, self.exponential)

    def _flat(self, row: Axis) -> Index:
        """Return which of all queries one of those is that the lanes of a key hold."""
        return self.first_row + Index.of(row)

    def _head(self) -> list[str]:
        lanes = self.schedule.lanes
        head = [
            "uint chunk = threadgroup_position_in_grid.x;",
            "uint block = threadgroup_position_in_grid.y;",
            "uint group = threadgroup_position_in_grid.z;",
            "uint simdgroup = simdgroup_index_in_threadgroup;",
        ]
        if lanes > 1:
            part = "" if lanes == 32 else f" % {lanes}"
            head.append(f"uint lane = thread_index_in_simdgroup{part};")
        if self.layout.slots > 1:
            part = "" if lanes == 1 else f" / {lanes}"
            head.append(f"uint slot = thread_index_in_simdgroup{part};")
        head += self.layout.deal.lines(lanes)
        if self.layout.is_one_run and self.layout.vector > 1:
            head.append(f"uint start = lane * {self.layout.vector};")
        if self.layout.is_one_run and self.layout.vector == 1:
            head.append("uint feature = lane;")
        read: list[str] = []
        for line in reversed(head):
            name = line.split(" = ")[0].split()[-1]
            word = re.compile(rf"\b{name}\b")
            if self.writer.mentions(name) or any(word.search(other) for other in read):
                read.insert(0, line)
        return read

    def _pointers(self) -> None:
        """Point at a key head's keys and values, so that only the position remains."""
        for term in walk([self.key, self.value]):
            if not isinstance(term, Load) or term.places:
                continue
            inner = (a for a in term.offset.axes if a.name in _INNER)
            base = term.offset.without(inner)
            if base.terms and (term.array, base) not in self.writer.pointers:
                name = self.writer.fresh(f"{term.array}_group")
                self.writer.line(f"// {term.array}: {self.signature.spelled[term.array]}")
                self.writer.line(f"auto {name} = {term.array} + {self.writer.index(base)};")
                self.writer.pointers[term.array, base] = name

    def _read_queries(self) -> None:
        self.writer.line(f"float scaled{self.registers.dimensions(self.size.head)};")

        def body(inner: Writer) -> list[Run]:
            runs = self._span(0).bind(inner, [self.query], ())
            inner.prepare([self.query])
            text = inner.expression(self.query).text
            inner.line(f"{self.registers.place('scaled', self.size.head)} = {text};")
            return runs

        with each(self.writer, "row", self.schedule.queries):
            surround(
                self.writer,
                (*self.registers.query_line, *self.registers.around(self.size.head)),
                body,
            )

    def _declare(self) -> None:
        writer, rows = self.writer, self.layout.deal.own_queries
        if rows == 1:
            writer.line("float peak = -FLT_MAX;")
            writer.line("float total = 0.0f;")
        else:
            writer.line(f"float peak[{rows}];")
            writer.line(f"float total[{rows}] = {{}};")
            with self.weighing.each_query():
                # A finite start: the difference of two infinities would be NaN.
                writer.line(f"{self.weighing.of_query('peak')} = -FLT_MAX;")
        dimensions = self.registers.dimensions(self.size.width)
        writer.line(f"float attended{dimensions} = {'{}' if dimensions else '0.0f'};")

    def _walk(self) -> None:
        layout, keys = self.layout, self.size.keys
        turn = layout.slots * self.schedule.keys
        first = f"simdgroup * {turn}" if turn > 1 else "simdgroup"
        last = str(keys)
        before = self._earliest()
        if layout.chunks > 1:
            if self.is_open:
                all_chunks = layout.chunks * layout.stride
                seen = f"keys - {before}" if before else "keys"
                rounded = f"({seen} + {all_chunks - 1}) / {all_chunks} * {layout.stride}"
                self.writer.line(f"uint share = {rounded};")
                length = "share"
            else:
                length = str(layout.length)
            first = f"chunk * {length} + {first}"
            last = f"(chunk + 1) * {length}"
            last = f"{before} + {last}" if before else last
            if self.is_open or self.size.seen % layout.length:
                self.writer.line(f"uint last = metal::min({last}, {keys}u);")
                last = "last"
        first = f"{before} + {first}" if before else first
        name = "position" if turn == 1 else "first"
        head = f"for (uint {name} = {first}; {name} < {last}; {name} += {layout.stride})"
        if self.layout.asks_ahead:
            self._ask_once()
        with self.writer.block(head):
            if turn > 1 and self.schedule.keys == 1:
                self.writer.line("uint position = first + slot;")
            if self.layout.asks_ahead:
                self._ask_ahead()
            self._read_keys()
            self.weighing.write()
            self._read_values()

    def _earliest(self) -> str:
        """Return the first key that any query sees; nothing where that is the first of all."""
        reach, keys = self.size.reach, self.size.keys
        if not reach or (keys <= reach and not self.is_open):
            return ""
        if not self.is_open:
            return str(keys - reach)
        self.writer.line(f"uint earliest = metal::max({keys}u, {reach}u) - {reach};")
        return "earliest"

    def _read_keys(self) -> None:
        writer, rows, deal = self.writer, self.schedule.queries, self.layout.deal
        kept = "".join(f"[{n}]" for n in (deal.own_queries, self.schedule.keys) if n > 1)
        start = "" if deal.queries > 1 else f" = {'{}' if kept else '0.0f'}"
        writer.line(f"float score{kept}{start};")

        def body(inner: Writer) -> list[Run]:
            runs = [] if self.layout.asks_ahead else self._span(0).bind(inner, [self.key], ())
            # Values may be the keys themselves, and are read in the same block.
            writer.taken |= {run.name for run in runs}
            inner.prepare([self.key])
            name = (
                inner.named(self.key)
                if rows > 1
                else inner.expression(self.key).inside(Binding.MULTIPLY)
            )
            with each(inner, "row", rows):
                scaled = self.registers.place("scaled", self.size.head)
                inner.line(f"{self.registers.product} += {scaled} * {name};")
            return runs

        around = (*self._at_position(), *self.registers.around(self.size.head))
        if deal.queries == 1:
            with each(writer, "j", self.schedule.keys):
                surround(writer, around, body)
            return
        declared = f"float {self.registers.of_keys('products')} = {{}};"
        if self.layout.asks_ahead:
            with each(writer, "j", self.schedule.keys):
                writer.line(declared)
                surround(writer, around, body)
                self.weighing.deal_queries()
            return
        writer.line(declared)
        with each(writer, "j", self.schedule.keys):
            surround(writer, around, body)
        with each(writer, "j", self.schedule.keys):
            self.weighing.deal_queries()

    @property
    def _is_turned(self) -> bool:
        """True where a lane's keys of a turn stand at fixed distances."""
        return self.layout.asks_ahead and not self.layout.is_ragged

    def _turn(self) -> Index:
        """Return where the keys of a turn stand for a lane that reads them at fixed distances."""
        slots, keys = self.layout.slots, self.schedule.keys
        first = Axis("first", self.size.keys - slots * keys + 1)
        ahead, slot = Axis("j", keys), Axis("slot", slots)
        return Index.of(first) + Index.of(slot) + Index.of(ahead) * slots

    def _ask_once(self) -> None:
        """Read what all keys and all values share, such as a scale."""
        moving = self._turn().axes | {self.position}
        for load in always([self.key, self.value], self.writer.bound):
            if isinstance(load, Load) and not load.axes & moving:
                for run in self._span(0).bind(self.writer, [load], ()):
                    self.writer.line(run.before)

    def _ask_ahead(self) -> None:
        feature, ahead = self.features[0], Axis("j", self.schedule.keys)
        run = Span(feature, self.layout.vector, self.schedule.keys, counter="i")
        pointers = {}
        for load in always([self.key, self.value], self.writer.bound):
            if isinstance(load, Load) and run.whole(self.writer, load) and ahead in load.axes:
                start = Index.of(Axis("start", feature.extent))
                base = load.offset.without((feature, ahead)) + start
                name = self.writer.fresh(f"{load.array}_turn")
                self.writer.line(f"auto {name} = {self.writer.address(load.array, base)};")
                pointers[load.array, base] = name
        # The first that fits is taken.
        self.writer.pointers = pointers | self.writer.pointers
        runs = run.bind(self.writer, [self.key, self.value], ())
        for run_ in runs:
            self.writer.line(run_.declared)

        def body(inner: Writer) -> list[Run]:
            for run_ in runs:
                inner.line(run_.before)
            return []

        with each(self.writer, "j", self.schedule.keys):
            surround(self.writer, self._at_position(), body)

    def _read_values(self) -> None:
        rows = self.schedule.queries

        def body(inner: Writer) -> list[Run]:
            runs = [] if self.layout.asks_ahead else self._span(1).bind(inner, [self.value], ())
            inner.prepare([self.value])
            name = (
                inner.named(self.value)
                if rows > 1
                else inner.expression(self.value).inside(Binding.MULTIPLY)
            )
            with each(inner, "row", rows):
                attended = self.registers.place("attended", self.size.width)
                inner.line(f"{attended} += {self.weighing.weight} * {name};")
            return runs

        # Not even a weight of zero may meet another key's infinite value.
        around = (*self._if_there(), *self.registers.around(self.size.width))
        declared = f"float {self.registers.of_keys('weights')};"
        is_dealt, is_ahead = self.layout.deal.is_dealt, self.layout.asks_ahead
        if is_dealt and not is_ahead:
            self.writer.line(declared)
            with each(self.writer, "j", self.schedule.keys):
                self.weighing.hand_round()
        with each(self.writer, "j", self.schedule.keys):
            if is_dealt and is_ahead:
                self.writer.line(declared)
                self.weighing.hand_round()
            surround(self.writer, around, body)

    def _merge(self) -> tuple[str, ...]:
        """Merge the simdgroups' parts, an element a thread, and return the arrays written."""
        row = "[row]" if self.schedule.queries > 1 else ""
        parts = Parts(
            self.schedule.simdgroups,
            f"partial_peak[part]{row}",
            f"partial_total[part]{row}",
            f"partial_value[part]{row}[column]",
            self.exponential,
        )
        axis = Axis("column", self.size.width)
        elements = self.schedule.queries * self.size.width
        with self._threads_over(elements):
            if self.layout.chunks > 1:
                entry = self._flat(self.row) * self.layout.chunks
                entry = entry + Index.of(Axis("chunk", self.layout.chunks))
                return write_part(self.writer, parts, entry, self.size.width)
            result = result_of(self.attended, (self.row, axis))
            flat, column = self._flat(self.row), Index.of(axis)
            stores = self.attended.stores(self.signature, flat, column, result)
            sink = self.attended.sink(flat)
            write_results(self.writer, parts, stores, result, sink)
            self.written = [*(s.value for s in stores), *([sink] if sink is not None else [])]
            return tuple(s.array for s in stores)

    @contextmanager
    def _threads_over(self, elements: int) -> Iterator[None]:
        """Let each thread of a threadgroup take elements in turn."""
        threads, rows = 32 * self.schedule.simdgroups, self.schedule.queries
        name = "place" if rows > 1 else "column"
        mine = f"uint {name} = thread_index_in_threadgroup"
        with ExitStack() as blocks:
            if elements > threads:
                head = f"for ({mine}; {name} < {elements}; {name} += {threads})"
                blocks.enter_context(self.writer.block(head))
            else:
                self.writer.line(f"{mine};")
            if elements < threads:
                blocks.enter_context(self.writer.block(f"if ({name} < {elements})"))
            if rows > 1:
                self.writer.line(f"uint row = place / {self.size.width};")
                self.writer.line(f"uint column = place % {self.size.width};")
            yield

    def _span(self, which: int) -> Span:
        return Span(self.features[which], self.layout.vector, counter="i")

    def _at_position(self) -> tuple[Line | Block, ...]:
        """Return what says which key is read, and keeps from reading what is not there."""
        return self.layout.nearest_line() if self.layout.asks_ahead else self._if_there()

    def _if_there(self) -> tuple[Line | Block, ...]:
        line = self.layout.position_line("j")
        if not self.layout.is_ragged:
            return line
        return (*line, Block(f"if (position < {self.size.keys})"))
