"""Quantized matrices times few vectors: a simdgroup makes a few results, lanes walk along rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.family.component import ragged_parts
from kernelwright.metal.family.matvec import Product
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.layout import Block, Line, span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.own_vector import behind_own_vector
from kernelwright.metal.lower.program.side_by_side import part_signature, side_by_side
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.quantized.digit import (
    can_stand,
    digit_of,
    share_of_place,
    standing_digit,
    weight_of,
)
from kernelwright.metal.lower.quantized.space import (
    VECTORS,
    divides_threadgroups,
    fits_strips,
    words_of,
)
from kernelwright.metal.lower.quantized.terms import Dot, product_stores
from kernelwright.metal.lower.term.build import REDUCED_AXIS
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Matvec

_LANES = 32
_LONGEST = 88
"""Characters of a statement beyond which the digit gets a name."""
_WIDTH = 4
"""Elements of a vector that a lane reads in one access."""


def lower_matvec(graph: Graph, signature: Signature, schedule: Matvec) -> Kernel:
    """Write one kernel for the products of a graph and what follows them.

    Raises:
        UnsupportedError: the schedule does not divide the graph's rows or words.
    """
    if prologue := prologue_of(graph):
        rest = prologue.rest.bare()
        if not divides_threadgroups(rest, schedule):
            raise UnsupportedError(
                f"{schedule.simdgroups} simdgroups that share a vector do not divide the rows."
            )
        return behind_own_vector(
            prologue, signature, lambda named: lower_matvec(rest, named, schedule)
        )
    parts = ragged_parts(graph)
    if parts:
        made = [
            lower_matvec(part.bare(), part_signature(signature, part), schedule) for part in parts
        ]
        return side_by_side(graph, made, axis=1, attribute="thread_position_in_grid.y")
    stores, dots, product = product_stores(graph, signature)
    rows = graph.output_types[0].size // product.vectors
    if not fits_strips(product, rows, schedule):
        raise UnsupportedError(
            f"{schedule.strips} simdgroups that share {product.columns} columns in threadgroups of "
            f"{schedule.simdgroups} do not divide the rows, or have no columns left."
        )
    if rows % schedule.results or schedule.words not in words_of(product):
        raise UnsupportedError(
            f"{schedule.results} results of {schedule.words} words at a time do not divide {rows} "
            f"rows of {product.columns} {product.bits}-bit digits."
        )
    writer = Writer(signature.scalars, taken=signature.taken, shared=signature.shared)
    source = Rows(writer, stores, dots, product, schedule).write()
    roots = [s.value for s in stores] + [t for d in dots for t in d.read]
    used = {t.array for t in walk(roots) if isinstance(t, Load)}
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(s.array for s in stores),
        source=source,
        header=header_for(source),
        grid=(
            _LANES * schedule.strips,
            rows // schedule.results,
            product.vectors if product.is_gathered else 1,
        ),
        threadgroup=(_LANES * schedule.strips, schedule.simdgroups, 1),
    )


@dataclass
class Rows:
    """One kernel being written."""

    writer: Writer
    stores: Sequence[Store]
    dots: Sequence[Dot]
    product: Product
    schedule: Matvec
    totals: list[str] = field(default_factory=list)
    """The variable of each dot product."""
    values: dict[int, str] = field(default_factory=dict)
    """The register arrays that hold a lane's part of each vector, by the element's number."""
    sums: dict[int, str] = field(default_factory=dict)
    """Where digits stay where they stand: the sum of that part, by the same number."""
    strip_sums: list[str] = field(default_factory=list)
    """What simdgroups that share columns leave of each dot product."""

    @property
    def stays(self) -> bool:
        """Whether digits are multiplied where they stand, and scales and biases once a run."""
        return can_stand(self.product.bits) and all(dot.bias is not None for dot in self.dots)

    @property
    def digits(self) -> int:
        """Digits that a lane takes at a time."""
        return self.schedule.words * 32 // self.product.bits

    @property
    def vectors(self) -> int:
        """Vectors that a simdgroup multiplies at once."""
        return 1 if self.product.is_gathered else self.product.vectors

    def write(self) -> str:
        """Return the kernel's body."""
        # What says which matrix a vector is multiplied with.
        self.writer.define_places([t for dot in self.dots for t in dot.read])
        for _ in self.dots:
            self._declare_total()
        if self.schedule.strips > 1:
            self._declare_strip_sums()
        with self._tiles():
            for dot in self.dots:
                if dot.value.number not in self.values:
                    self._read_vectors(dot.value)
            with self._each("j", self.schedule.results):
                self._row()
                self._multiply()
        self._finish()
        return "\n".join([*self._head(), *self.writer.lines]) + "\n"

    def _head(self) -> list[str]:
        results = self.schedule.results
        first = "row" if results == 1 else "first"
        scale = "" if results == 1 else f" * {results}"
        head = [
            f"constexpr uint columns = {self.product.columns};",
            "uint lane = thread_index_in_simdgroup;",
            f"uint strip = simdgroup_index_in_threadgroup % {self.schedule.strips};",
            f"uint {first} = thread_position_in_grid.y{scale};",
            "uint token = thread_position_in_grid.z;",
        ]
        is_spread = self.product.is_gathered and self.product.vectors > 1
        kept = head if is_spread else head[:-1]
        return [h for h in kept if self.writer.mentions(h.split(" = ")[0].split()[-1])]

    def _declare_total(self) -> None:
        several = self.vectors * self.schedule.results > 1
        name = self.writer.fresh("totals" if several else "total")
        sizes = [n for n in (self.vectors, self.schedule.results) if n > 1]
        shape = "".join(f"[{n}]" for n in sizes)
        self.writer.line(f"float {name}{shape} = {'{}' if several else '0.0f'};")
        token = "[token]" if self.vectors > 1 else ""
        result = "[j]" if self.schedule.results > 1 else ""
        self.totals.append(f"{name}{token}{result}")

    def _declare_strip_sums(self) -> None:
        parts = self.vectors * self.schedule.results
        size = self.schedule.simdgroups * parts * self.schedule.strips
        for _ in self.dots:
            self.strip_sums.append(self.writer.fresh("strip_sums"))
            self.writer.line(f"threadgroup float {self.strip_sums[-1]}[{size}];")

    @contextmanager
    def _tiles(self) -> Iterator[None]:
        """Write the walk of the lanes along the rows."""
        step = _LANES * self.digits * self.schedule.strips
        first = f"lane * {self.digits}"
        if self.schedule.strips > 1:
            first = f"thread_position_in_threadgroup.x * {self.digits}"
        if step < self.product.columns:
            head = f"for (uint tile = {first}; tile < columns; tile += {step})"
            with self.writer.block(head):
                yield
            return
        self.writer.line(f"uint tile = {first};")
        if step == self.product.columns:
            yield
            return
        with self.writer.block("if (tile < columns)"):
            yield

    @contextmanager
    def _each(self, name: str, count: int) -> Iterator[None]:
        """Write a loop, where there is more than one turn."""
        if count == 1:
            yield
            return
        with self.writer.block(f"for (uint {name} = 0; {name} < {count}; ++{name})"):
            yield

    def _row(self) -> None:
        if self.schedule.results > 1:
            self.writer.line("uint row = first + j;")

    def _read_vectors(self, value: Expr) -> None:
        """Keep a lane's part of every vector in registers: all its rows of weights need it."""
        writer = self.writer
        array = writer.fresh("values")
        shape = f"[{self.vectors}]" if self.vectors > 1 else ""
        writer.line(f"float {array}{shape}[{self.digits}];")
        self.values[value.number] = array
        if self.stays:
            self.sums[value.number] = writer.fresh("sum")
            zero = "{}" if self.vectors > 1 else "0.0f"
            writer.line(f"float {self.sums[value.number]}{shape} = {zero};")
        token = "[token]" if self.vectors > 1 else ""
        around = [
            Block(f"for (uint i = 0; i < {self.digits}; i += {_WIDTH})"),
            Line("uint start = tile + i;", "start"),
            *span(REDUCED_AXIS, _WIDTH),
        ]

        def body(inner: Writer) -> list[Run]:
            axis = Axis(REDUCED_AXIS, self.product.columns)
            inner.factors = {self.product.columns: "columns"}
            runs = Span(axis, _WIDTH).bind(inner, [value], ())
            inner.prepare([value])
            if not self.stays:
                inner.line(f"{array}{token}[i + k] = {_text(inner, value)};")
                return runs
            name = inner.fresh("value")
            inner.line(f"float {name} = {_text(inner, value)};")
            inner.line(f"{self.sums[value.number]}{token} += {name};")
            divided = f"{name} * {share_of_place('i + k', self.product.bits)}"
            inner.line(f"{array}{token}[i + k] = {divided};")
            return runs

        with self._each("token", self.vectors):
            surround(writer, around, body)

    def _multiply(self) -> None:
        parts = [self._read_row(dot) for dot in self.dots]
        if self.stays:
            self._multiply_in_place(parts)
            return
        writer = self.writer
        with writer.block(f"for (uint k = 0; k < {self.digits}; ++k)"):
            for dot, (words, scale, bias), total in zip(self.dots, parts, self.totals, strict=True):
                values = self.values[dot.value.number]
                weight = writer.fresh("weight")
                digit = digit_of(words, dot.bits, is_one_word=self.schedule.words == 1)
                text = f"float {weight} = {weight_of(digit, scale, bias, self.product)};"
                if len(text) > _LONGEST:
                    name = writer.fresh("digit")
                    writer.line(f"uint {name} = {digit};")
                    text = f"float {weight} = {weight_of(name, scale, bias, self.product)};"
                writer.line(text)
                token = "[token]" if self.vectors > 1 else ""
                with self._each("token", self.vectors):
                    writer.line(f"{total} += {values}{token}[k] * {weight};")

    def _multiply_in_place(self, parts: Sequence[tuple[str, str, str]]) -> None:
        """Add up elements times digits, then once for all of them the scale and the bias."""
        writer = self.writer
        token = "[token]" if self.vectors > 1 else ""
        shape, zero = (f"[{self.vectors}]", "{}") if self.vectors > 1 else ("", "0.0f")
        products = [writer.fresh("products") for _ in self.dots]
        for name in products:
            writer.line(f"float {name}{shape} = {zero};")
        with writer.block(f"for (uint k = 0; k < {self.digits}; ++k)"):
            for dot, (words, _, _), name in zip(self.dots, parts, products, strict=True):
                digit = writer.fresh("digit")
                is_one = self.schedule.words == 1
                standing = standing_digit(words, self.product.bits, is_one_word=is_one)
                writer.line(f"float {digit} = float({standing});")
                with self._each("token", self.vectors):
                    values = self.values[dot.value.number]
                    writer.line(f"{name}{token} += {values}{token}[k] * {digit};")
        with self._each("token", self.vectors):
            for dot, (_, scale, bias), name, total in zip(
                self.dots, parts, products, self.totals, strict=True
            ):
                of_sum = f"{bias} * {self.sums[dot.value.number]}{token}"
                writer.line(f"{total} += {scale} * {name}{token} + {of_sum};")

    def _read_row(self, dot: Dot) -> tuple[str, str, str]:
        """Read a lane's packed words of one row, and their group's scale and bias, if any."""
        writer, kind = self.writer, VECTORS[self.schedule.words]
        if kind:
            words = writer.fresh(f"{dot.words.array}_run")
            address = writer.address(dot.words.array, dot.words.offset)
            writer.line(f"auto {words} = {writer.run_at(kind, dot.words.array, address)};")
        else:
            words = writer.fresh(dot.words.name)
            writer.line(f"uint {words} = {writer.access(dot.words.array, dot.words.offset)};")
        names = []
        for term in (dot.scale, dot.bias):
            if term is None:
                names.append("")
                continue
            if term.number not in writer.bound:
                name = writer.fresh(term.name)
                writer.line(f"float {name} = {_text(writer, term)};")
                writer.bind(term, name)
            names.append(writer.bound[term.number])
        return words, names[0], names[1]

    def _finish(self) -> None:
        """Add up what the lanes found, and let one of them write what becomes of it."""
        if self.schedule.strips > 1:
            self._finish_strips()
            return
        writer = self.writer
        with self._each("token", self.vectors), self._each("j", self.schedule.results):
            for dot, total in zip(self.dots, self.totals, strict=True):
                name = total
                if "[" in total:
                    name = writer.fresh("total")
                    writer.line(f"float {name} = metal::simd_sum({total});")
                else:
                    writer.line(f"{total} = metal::simd_sum({total});")
                writer.bind(dot.total, name)
            around: list[Line | Block] = [Block("if (lane == 0)")]
            if self.schedule.results > 1:
                around.append(Line("uint row = first + j;", "row"))
            surround(writer, around, self._store)

    def _finish_strips(self) -> None:
        """Add up what the simdgroups found that share columns: a thread for each result."""
        writer, results, strips = self.writer, self.schedule.results, self.schedule.strips
        team = "thread_position_in_threadgroup.y"
        parts = self.vectors * results
        places = [f"token * {results}"] * (self.vectors > 1) + ["j"] * (results > 1)
        place = " + ".join(places) or "0"
        with self._each("token", self.vectors), self._each("j", results):
            for name, total in zip(self.strip_sums, self.totals, strict=True):
                own = writer.fresh("own")
                writer.line(f"float {own} = metal::simd_sum({total});")
                with writer.block("if (lane == 0)"):
                    index = f"({team} * {parts} + {place}) * {strips} + strip"
                    writer.line(f"{name}[{index}] = {own};")
        writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")

        def body(inner: Writer) -> list[Run]:
            for dot, name in zip(self.dots, self.strip_sums, strict=True):
                total = inner.fresh("total")
                inner.line(f"float {total} = 0.0f;")
                with inner.block(f"for (uint part = 0; part < {strips}; ++part)"):
                    index = f"({team} * {parts} + {place}) * {strips} + part"
                    inner.line(f"{total} += {name}[{index}];")
                inner.bind(dot.total, total)
            return self._store(inner)

        around: list[Line | Block] = [Block(f"if (thread_position_in_threadgroup.x < {results})")]
        if results > 1:
            around.append(Line("uint j = thread_position_in_threadgroup.x;", "j"))
            around.append(Line("uint row = first + j;", "row"))
        with self._each("token", self.vectors):
            surround(writer, around, body)

    def _store(self, inner: Writer) -> list[Run]:
        offsets = [store.offset for store in self.stores]
        offsets += [t.offset for t in walk(self._values, inner.bound) if isinstance(t, Load)]
        inner.share_offsets(offsets, "place")
        inner.prepare(self._values)
        for store in self.stores:
            inner.store(store)
        return []

    @property
    def _values(self) -> list[Expr]:
        return [store.value for store in self.stores]


def _text(writer: Writer, term: Expr) -> str:
    """Write a term that a float variable takes; a half converts without saying so."""
    if isinstance(term, Load) and term.number not in writer.bound:
        return writer.access(term.array, term.offset)
    return writer.expression(term).text
