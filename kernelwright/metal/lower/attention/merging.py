"""Merging parts of an attention: their maxima, sums of weights and weighted sums of values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.attention.terms import TAKEN, Attended, Sizes
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.lower.term.operator import exponential_for

_PEAKS, _TOTALS, _SUMS = "chunk_peaks", "chunk_totals", "chunk_sums"


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of a row stand, as text over `part` and `column`."""

    count: int
    peak: str
    total: str
    value: str
    exponential: str

    @property
    def first_peak(self) -> str:
        """The peak of the first part."""
        return self.peak.replace(" + part]", "]").replace("[part]", "[0]")


def temporaries(size: Sizes, chunks: int) -> tuple[Tensor, ...]:
    """Return the arrays in which chunks leave what they found."""
    rows = size.groups * size.rows
    shapes = {_PEAKS: (rows, chunks), _TOTALS: (rows, chunks), _SUMS: (rows, chunks, size.width)}
    return tuple(Tensor(name=n, dtype=Dtype.FLOAT32, shape=s) for n, s in shapes.items())


def result_of(attended: Attended, axes: Iterable[Axis]) -> Expr:
    """Return the term of one attended element."""
    return attended.terms.held("result", Dtype.FLOAT32, axes)


def write_part(writer: Writer, parts: Parts, entry: Index, width: int) -> tuple[str, ...]:
    """Write a row's merged parts to memory, for another kernel; return the arrays."""
    _write_sums(writer, parts, "")
    writer.line(f"uint entry = {writer.index(entry)};")
    writer.line(f"{_SUMS}[entry * {width} + column] = value_sum;")
    with writer.block("if (column == 0)"):
        writer.line(f"{_PEAKS}[entry] = row_peak;")
        writer.line(f"{_TOTALS}[entry] = row_total;")
    return (_PEAKS, _TOTALS, _SUMS)


def write_results(
    writer: Writer, parts: Parts, stores: Sequence[Store], result: Expr, sink: Expr | None
) -> None:
    """Write what becomes of a row's merged parts."""
    sink_name = ""
    if sink is not None:
        writer.prepare([sink])
        sink_name = writer.named(sink)
    _write_sums(writer, parts, sink_name)
    writer.line("float result = value_sum / row_total;")
    writer.bind(result, "result")
    loads = [t.offset for t in walk([s.value for s in stores]) if isinstance(t, Load)]
    writer.share_offsets([*loads, *(s.offset for s in stores)], "element")
    writer.prepare([s.value for s in stores])
    for store in stores:
        writer.store(store)


def _write_sums(writer: Writer, parts: Parts, sink: str) -> None:
    """Write a row's maximum, its sum of weights, and one of its weighted sums of values."""
    first = 0 if sink else 1
    writer.line(f"float row_peak = {sink or parts.first_peak};")
    with writer.block(f"for (uint part = {first}; part < {parts.count}; ++part)"):
        writer.line(f"row_peak = metal::max(row_peak, {parts.peak});")
    start = f"{parts.exponential}({sink} - row_peak)" if sink else "0.0f"
    writer.line(f"float row_total = {start};")
    writer.line("float value_sum = 0.0f;")
    with writer.block(f"for (uint part = 0; part < {parts.count}; ++part)"):
        writer.line(f"float weight = {parts.exponential}({parts.peak} - row_peak);")
        writer.line(f"row_total += {parts.total} * weight;")
        writer.line(f"value_sum += {parts.value} * weight;")


def merge_kernel(graph: Graph, signature: Signature, chunks: int) -> Kernel:
    """Write the kernel that merges the chunks of every row, an element a thread."""
    attended = Attended.of(graph, signature)
    size = attended.sizes
    axes = Axis("row", size.groups * size.rows), Axis("column", size.width)
    row, column = (Index.of(axis) for axis in axes)
    result = result_of(attended, axes)
    stores = attended.stores(signature, row, column, result)
    sink = attended.sink(row)
    writer = Writer(signature.scalars, taken=TAKEN | {*signature.spelled})
    writer.line("uint column = thread_position_in_grid.x;")
    writer.line("uint row = thread_position_in_grid.y;")
    entry = f"row * {chunks} + part"
    parts = Parts(
        chunks,
        f"{_PEAKS}[{entry}]",
        f"{_TOTALS}[{entry}]",
        f"{_SUMS}[({entry}) * {size.width} + column]",
        exponential_for(graph),
    )
    write_results(writer, parts, stores, result, sink)
    source = "\n".join(writer.lines) + "\n"
    roots = [s.value for s in stores] + ([sink] if sink is not None else [])
    loads = {t.array for t in walk(roots) if isinstance(t, Load)}
    inputs = [name for name, _ in signature.inputs if name in loads]
    threads = min(size.width, 256)
    return Kernel(
        name=f"{kernel_name(graph)}_merge",
        inputs=(*inputs, _PEAKS, _TOTALS, _SUMS),
        outputs=tuple(s.array for s in stores),
        source=source,
        header=header_for(source),
        grid=(size.width, size.groups * size.rows, 1),
        threadgroup=(threads, max(256 // threads, 1), 1),
    )
