"""Adding up what threadgroups that share dot products left, and mapping the results."""

from collections.abc import Sequence

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.gemv.terms import PARTIAL, TAKEN, Dense
from kernelwright.metal.lower.gemv.tiling import Tiling
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for

_THREADS = 64
"""Threads a threadgroup: few, so that the results of a few rows reach every core."""


def partial_sums(tiling: Tiling) -> Tensor:
    """Return the array in which chunks leave their sums, for each dot product of an element."""
    dense, chunks = tiling.dense, tiling.schedule.chunks
    rows = dense.matrices * dense.tokens
    shape = (len(tiling.dots), chunks, rows, dense.column.extent)
    return Tensor(name=PARTIAL, dtype=Dtype.FLOAT32, shape=shape)


def partial_sum(writer: Writer, tiling: Tiling, dot: int) -> str:
    """Return the text of a chunk's sum of the dot product of an element of `result`."""
    dense, chunks = tiling.dense, tiling.schedule.chunks
    element = _element(dense)
    chunk = Index.of(Axis("chunk", chunks)) + dot * chunks
    size = dense.matrices * dense.tokens * dense.column.extent
    return f"{PARTIAL}[{writer.index(chunk * size + element)}]"


def _element(dense: Dense) -> Index:
    columns = dense.column.extent
    return dense.rows * columns + Index.of(Axis("result", columns))


def write_results(writer: Writer, stores: Sequence[Store]) -> None:
    """Write what becomes of the dot products of an element."""
    values = [store.value for store in stores]
    offsets = [term.offset for term in walk(values) if isinstance(term, Load)]
    writer.share_offsets([*offsets, *(store.offset for store in stores)], "element")
    writer.prepare(values)
    for store in stores:
        writer.store(store)


def merge_kernel(graph: Graph, signature: Signature, tiling: Tiling) -> Kernel:
    """Write the kernel that adds up the chunks' sums, an element a thread."""
    dense, stores = tiling.dense, tiling.stores
    writer = Writer(signature.scalars, taken=TAKEN | {*signature.spelled})
    for dot, term in enumerate(tiling.totals):
        total = writer.fresh("total")
        writer.line(f"float {total} = 0.0f;")
        with writer.block(f"for (uint chunk = 0; chunk < {tiling.schedule.chunks}; ++chunk)"):
            writer.line(f"{total} += {partial_sum(writer, tiling, dot)};")
        writer.bind(term, total)
    write_results(writer, stores)
    places = zip(("result", "token", "matrix"), "xyz", strict=True)
    head = [f"uint {n} = thread_position_in_grid.{a};" for n, a in places if writer.mentions(n)]
    source = "\n".join([*head, *writer.lines]) + "\n"
    loads = {t.array for t in walk([s.value for s in stores]) if isinstance(t, Load)}
    columns = dense.column.extent
    return Kernel(
        name=f"{kernel_name(graph)}_merge",
        inputs=(*(name for name, _ in signature.inputs if name in loads), PARTIAL),
        outputs=tuple(store.array for store in stores),
        source=source,
        header=header_for(source),
        grid=(columns, dense.tokens, dense.matrices),
        threadgroup=(min(columns, _THREADS), 1, 1),
    )
