"""Attention by online softmax: simdgroups walk along keys, and merge what each of them found."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.lower.attended import RESERVED_HERE, TAKEN, Attended
from kernelwright.metal.lower.attention_layout import Layout
from kernelwright.metal.lower.function import header_for
from kernelwright.metal.lower.index import Axis, Index
from kernelwright.metal.lower.layout import Block, Line, span, surround
from kernelwright.metal.lower.merging import (
    Parts,
    merge_kernel,
    result_of,
    temporaries,
    write_part,
    write_results,
)
from kernelwright.metal.lower.operator import exponential_for
from kernelwright.metal.lower.run import Run, Span
from kernelwright.metal.lower.signature import Signature, kernel_name
from kernelwright.metal.lower.term import Load, Term, walk
from kernelwright.metal.lower.writer import Writer
from kernelwright.metal.schedule import Attention


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
        in_group = Index.of(blocks) * self.schedule.queries + Index.of(self.row)
        self.flat = self.group * size.rows + in_group
        self.position = Axis("position", size.keys)
        self.exponential = exponential_for(graph)

    def kernel(self) -> Kernel:
        """Write the kernel."""
        self._terms()
        self._pointers()
        self._read_queries()
        self._declare()
        self._walk()
        self._join_slots()
        self._leave_parts()
        outputs = self._merge()
        source = "\n".join([*self._head(), *self.writer.lines]) + "\n"
        roots = [self.query, self.key, self.value, self.score]
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
        position = Index.of(self.position)
        self.query = attended.scaled_query(self.flat, key)
        self.key = attended.key(self.group, position, key)
        self.value = attended.value(self.group, position, value)
        varying = [self.row, self.position]
        self.product = attended.terms.held("product", Dtype.FLOAT32, varying)
        self.score = attended.score(self.product, self.flat, position, is_scaled=True)
        self.written: list[Term] = []

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
        if self._is_one_run and self.layout.vector > 1:
            head.append(f"uint start = lane * {self.layout.vector};")
        if self._is_one_run and self.layout.vector == 1:
            head.append("uint feature = lane;")
        return [line for line in head if self._is_read(line)]

    def _is_read(self, line: str) -> bool:
        name = line.split(" = ")[0].split()[-1]
        if name == "lane" and (self.writer.mentions("start") or self.writer.mentions("feature")):
            return True
        return self.writer.mentions(name)

    @property
    def _is_one_run(self) -> bool:
        """True where a lane reads one run of every query, key and value."""
        return self.layout.parts(self.size.head) == self.layout.parts(self.size.width) == 1

    def _pointers(self) -> None:
        """Point at a key head's keys and values, so that only the position remains."""
        for term in walk([self.key, self.value]):
            if not isinstance(term, Load) or term.places:
                continue
            inner = (a for a in term.offset.axes if a.name in ("position", "feature"))
            base = term.offset.without(inner)
            if base.terms and (term.array, base) not in self.writer.pointers:
                name = self.writer.fresh(f"{term.array}_group")
                self.writer.line(f"// {term.array}: {self.signature.spelled[term.array]}")
                self.writer.line(f"auto {name} = {term.array} + {self.writer.index(base)};")
                self.writer.pointers[term.array, base] = name

    def _read_queries(self) -> None:
        self.writer.line(f"float scaled{self._dimensions(self.size.head)};")

        def body(inner: Writer) -> list[Run]:
            runs = self._span(0).bind(inner, [self.query], ())
            inner.prepare([self.query])
            text = inner.expression(self.query).text
            inner.line(f"{self._place('scaled', self.size.head)} = {text};")
            return runs

        with self._each(self.writer, "row", self.schedule.queries):
            surround(self.writer, self._around(0), body)

    def _declare(self) -> None:
        writer, rows = self.writer, self.schedule.queries
        if rows == 1:
            writer.line("float peak = -FLT_MAX;")
            writer.line("float total = 0.0f;")
        else:
            writer.line(f"float peak[{rows}];")
            writer.line(f"float total[{rows}] = {{}};")
            with writer.block(f"for (uint row = 0; row < {rows}; ++row)"):
                # A finite start: the difference of two infinities would be NaN.
                writer.line("peak[row] = -FLT_MAX;")
        dimensions = self._dimensions(self.size.width)
        writer.line(f"float attended{dimensions} = {'{}' if dimensions else '0.0f'};")

    def _walk(self) -> None:
        layout, keys = self.layout, self.size.keys
        turn = layout.slots * self.schedule.keys
        first = f"simdgroup * {turn}" if turn > 1 else "simdgroup"
        last = str(keys)
        before = self._earliest()
        if layout.chunks > 1:
            length = str(layout.length)
            if self.is_open:
                all_chunks = layout.chunks * layout.stride
                seen = f"keys - {before}" if before else "keys"
                rounded = f"({seen} + {all_chunks - 1}) / {all_chunks} * {layout.stride}"
                self.writer.line(f"uint share = {rounded};")
                length = "share"
            first = f"chunk * {length} + {first}"
            last = f"(chunk + 1) * {length}"
            last = f"{before} + {last}" if before else last
            if self.is_open or self.size.seen % layout.length:
                self.writer.line(f"uint last = metal::min({last}, {keys}u);")
                last = "last"
        first = f"{before} + {first}" if before else first
        name = "position" if turn == 1 else "first"
        head = f"for (uint {name} = {first}; {name} < {last}; {name} += {layout.stride})"
        with self.writer.block(head):
            if turn > 1 and self.schedule.keys == 1:
                self.writer.line("uint position = first + slot;")
            if self._asks_ahead:
                self._ask_for_values()
            self._read_keys()
            self._weigh()
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
        writer, rows, ahead = self.writer, self.schedule.queries, self.schedule.keys
        dimensions = "".join(f"[{n}]" for n in (ahead, rows) if n > 1)
        writer.line(f"float score{dimensions} = {'{}' if dimensions else '0.0f'};")

        def body(inner: Writer) -> list[Run]:
            runs = self._span(0).bind(inner, [self.key], ())
            # Values may be the keys themselves, and are read in the same block.
            writer.taken |= {run.name for run in runs}
            inner.prepare([self.key])
            name = inner.named(self.key) if rows > 1 else inner.expression(self.key).text
            with self._each(inner, "row", rows):
                scaled = self._place("scaled", self.size.head)
                inner.line(f"{self._score} += {scaled} * {name};")
            return runs

        with self._each(writer, "j", ahead):
            surround(writer, (*self._at_position(), *self._around(0)), body)

    @property
    def _asks_ahead(self) -> bool:
        """True where values are on their way while keys are weighed: one wait serves both."""
        return self._is_one_run and self.schedule.keys > 1 and not self.layout.is_ragged

    def _ask_for_values(self) -> None:
        span_ = Span(self.features[1], self.layout.vector, self.schedule.keys, counter="i")
        runs = span_.bind(self.writer, [self.value], ())
        for run in runs:
            self.writer.line(run.declared)

        def body(inner: Writer) -> list[Run]:
            for run in runs:
                inner.line(run.before)
            return []

        with self._each(self.writer, "j", self.schedule.keys):
            surround(self.writer, self._at_position(), body)

    def _read_values(self) -> None:
        rows = self.schedule.queries

        def body(inner: Writer) -> list[Run]:
            runs = [] if self._asks_ahead else self._span(1).bind(inner, [self.value], ())
            inner.prepare([self.value])
            name = inner.named(self.value) if rows > 1 else inner.expression(self.value).text
            with self._each(inner, "row", rows):
                attended = self._place("attended", self.size.width)
                inner.line(f"{attended} += {self._score} * {name};")
            return runs

        with self._each(self.writer, "j", self.schedule.keys):
            surround(self.writer, (*self._at_position(), *self._around(1)), body)

    def _weigh(self) -> None:
        """Turn scores into weights, after what was found before is brought to a new maximum."""
        writer, peak, total = self.writer, self._of_row("peak"), self._of_row("total")
        is_one = self.schedule.keys == 1
        with self._each(writer, "row", self.schedule.queries):
            if not is_one:
                writer.line(f"float raised = {peak};")
            with self._each(writer, "j", self.schedule.keys):
                self._finish_score()
                if not is_one:
                    writer.line(f"raised = metal::max(raised, {self._score});")
            raised = self._score if is_one else "raised"
            # A new maximum becomes rare as keys go by.
            with writer.block(f"if ({raised} > {peak})"):
                writer.line(f"float kept = {self.exponential}({peak} - {raised});")
                writer.line(f"{peak} = {raised};")
                writer.line(f"{total} *= kept;")
                with self._each_element(self.size.width):
                    writer.line(f"{self._place('attended', self.size.width)} *= kept;")
            # A score is not needed any more once it is a weight.
            weight = f"{self.exponential}({self._score} - {peak})"
            with self._each(writer, "j", self.schedule.keys):
                writer.line(f"{self._score} = {weight};")
                writer.line(f"{total} += {self._score};")

    def _finish_score(self) -> None:
        lanes = self.schedule.lanes
        product = self._score
        if lanes == 32:
            product = f"metal::simd_sum({product})"
        elif lanes > 1:
            product = f"lanes_sum<{lanes}>({product})"

        is_plain = self.score is self.product and not self.layout.is_ragged

        def body(inner: Writer) -> list[Run]:
            if is_plain:
                if product != self._score:
                    inner.line(f"{self._score} = {product};")
                return []
            # Lanes without a key take part in the sum, so it stands before any branch.
            name = product
            if lanes > 1 or self.layout.is_ragged:
                name = inner.fresh("product")
                inner.line(f"float {name} = {product};")
            inner.bind(self.product, name)
            if not self.layout.is_ragged:
                self._write_score(inner)
            elif self.score is self.product:
                text = f"position < {self.size.keys} ? {name} : -INFINITY"
                inner.line(f"{self._score} = {text};")
            else:
                inner.line(f"{self._score} = -INFINITY;")
                with inner.block(f"if (position < {self.size.keys})"):
                    self._write_score(inner)
            return []

        surround(self.writer, self._position_line(), body)

    def _write_score(self, writer: Writer) -> None:
        writer.prepare([self.score])
        writer.line(f"{self._score} = {writer.expression(self.score).text};")

    def _join_slots(self) -> None:
        """Let the lanes of a simdgroup agree on one maximum, and add up what they found."""
        if self.layout.slots == 1:
            return
        writer, peak, total = self.writer, self._of_row("peak"), self._of_row("total")
        lanes = self.schedule.lanes
        with self._each(writer, "row", self.schedule.queries):
            writer.line(f"float raised = metal::simd_max({peak});")
            writer.line(f"float kept = {self.exponential}({peak} - raised);")
            writer.line(f"{peak} = raised;")
            writer.line(f"{total} = slots_sum<{lanes}>({total} * kept);")
            with self._each_element(self.size.width):
                place = self._place("attended", self.size.width)
                writer.line(f"{place} = slots_sum<{lanes}>({place} * kept);")

    def _leave_parts(self) -> None:
        """Leave what each simdgroup found where the whole threadgroup sees it."""
        writer, rows, count = self.writer, self.schedule.queries, self.schedule.simdgroups
        shape = f"[{count}][{rows}]" if rows > 1 else f"[{count}]"
        place = "[simdgroup][row]" if rows > 1 else "[simdgroup]"
        writer.line(f"threadgroup float partial_peak{shape};")
        writer.line(f"threadgroup float partial_total{shape};")
        writer.line(f"threadgroup float partial_value{shape}[{self.size.width}];")

        def body(inner: Writer) -> list[Run]:
            attended = self._place("attended", self.size.width)
            inner.line(f"partial_value{place}[{self._feature}] = {attended};")
            return []

        with self._each(writer, "row", rows):
            with writer.block("if (thread_index_in_simdgroup == 0)"):
                writer.line(f"partial_peak{place} = {self._of_row('peak')};")
                writer.line(f"partial_total{place} = {self._of_row('total')};")
            alone = [Block("if (slot == 0)")] if self.layout.slots > 1 else []
            surround(writer, (*alone, *self._around(1)), body)
        writer.line("// Every simdgroup's part is written before any is read.")
        writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")

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
                entry = self.flat * self.layout.chunks
                entry = entry + Index.of(Axis("chunk", self.layout.chunks))
                return write_part(self.writer, parts, entry, self.size.width)
            result = result_of(self.attended, (self.row, axis))
            stores = self.attended.stores(self.signature, self.flat, Index.of(axis), result)
            sink = self.attended.sink(self.flat)
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

    @contextmanager
    def _each(self, writer: Writer, counter: str, count: int) -> Iterator[None]:
        """Write a loop, or nothing around a single turn."""
        if count == 1:
            yield
            return
        with writer.block(f"for (uint {counter} = 0; {counter} < {count}; ++{counter})"):
            yield

    @contextmanager
    def _each_element(self, features: int) -> Iterator[None]:
        """Write the loops over what a lane holds of a row."""
        with (
            self._each(self.writer, "part", self.layout.parts(features)),
            self._each(self.writer, "i", self.layout.vector),
        ):
            yield

    def _of_row(self, name: str) -> str:
        return f"{name}[row]" if self.schedule.queries > 1 else name

    @property
    def _score(self) -> str:
        ahead = "[j]" if self.schedule.keys > 1 else ""
        return self._of_row(f"score{ahead}")

    def _dimensions(self, features: int) -> str:
        """Return the dimensions of a lane's part of some rows."""
        elements = self.layout.parts(features) * self.layout.vector
        return "".join(f"[{n}]" for n in (self.schedule.queries, elements) if n > 1)

    def _place(self, name: str, features: int) -> str:
        """Return the text of one element of a lane's part of a row."""
        parts, vector = self.layout.parts(features), self.layout.vector
        turn = f"part * {vector}" if vector > 1 else "part"
        counters = [turn] * (parts > 1) + ["i"] * (vector > 1)
        place = " + ".join(counters)
        return self._of_row(name) + (f"[{place}]" if place else "")

    @property
    def _feature(self) -> str:
        return "start + i" if self.layout.vector > 1 else "feature"

    def _span(self, which: int) -> Span:
        return Span(self.features[which], self.layout.vector, counter="i")

    def _around(self, which: int) -> tuple[Line | Block, ...]:
        """Return the loops over a lane's features, queries' and keys' or values'."""
        parts = self.layout.parts(self.features[which].extent)
        vector, lanes = self.layout.vector, self.schedule.lanes
        around: list[Line | Block] = []
        if parts > 1:
            around.append(Block(f"for (uint part = 0; part < {parts}; ++part)"))
        name = "start" if vector > 1 else "feature"
        terms = [f"part * {lanes * vector}" if lanes * vector > 1 else "part"] * (parts > 1)
        terms += [f"lane * {vector}" if vector > 1 else "lane"] * (lanes > 1)
        if not self._is_one_run:
            around.append(Line(f"uint {name} = {' + '.join(terms) or '0'};", name))
        if vector > 1:
            around += span("feature", vector, "i")
        return tuple(around)

    def _position_line(self) -> tuple[Line, ...]:
        """Return what says which key of its turn a lane is at; nothing where a turn has one."""
        if self.schedule.keys == 1:
            return ()
        slots = self.layout.slots
        turns = ["first", f"j * {slots}", "slot"] if slots > 1 else ["first", "j"]
        return (Line(f"uint position = {' + '.join(turns)};", "position"),)

    def _at_position(self) -> tuple[Line | Block, ...]:
        if not self.layout.is_ragged:
            return self._position_line()
        return (*self._position_line(), Block(f"if (position < {self.size.keys})"))
