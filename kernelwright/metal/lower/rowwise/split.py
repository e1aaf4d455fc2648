"""Few results of long reductions: one kernel reduces chunks, a second one what these left."""

from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, ReduceExpr, Reducer, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, unflatten
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.kernel import result_place, row_kernel
from kernelwright.metal.lower.rowwise.stores import row_count
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.schedule import ColumnSplit, Columnwise, Rowwise, Split

_SPLITTABLE = frozenset({Reducer.SUM, Reducer.PRODUCT, Reducer.MAXIMUM, Reducer.MINIMUM})


@dataclass
class _Chunks(Builder):
    """Builds reductions of one chunk of a row."""

    chunk: Index = field(default_factory=Index)
    chunks: int = 1

    def reduced_axis(self, length: int) -> tuple[Index, Axis]:
        """Return the place in a row of a chunk's element, and the axis of its elements."""
        if length % self.chunks:
            raise UnsupportedError(f"rows of {length} do not split into {self.chunks} chunks.")
        axis = Axis(REDUCED_AXIS, length // self.chunks)
        return self.chunk * axis.extent + Index.of(axis), axis


@dataclass
class _Partials(Builder):
    """Builds reductions of what the chunks left."""

    names: list[str] = field(default_factory=list)
    place: Index = field(default_factory=Index)
    """Where the first chunk of a row left what it found."""
    step: int = 1
    """From there to the next chunk's."""
    chunks: int = 1
    seen: dict[int, Expr] = field(default_factory=dict)

    def reduce(self, wanted: Expr) -> Expr:
        """Return the reduction over the partial results in place of the whole one."""
        assert isinstance(wanted, ReduceExpr)
        if wanted.number not in self.seen:
            axis = Axis(REDUCED_AXIS, self.chunks)
            name = self.names[len(self.seen)]
            place = self.place + Index.of(axis) * self.step
            load = self.terms.load(name, place, wanted.dtype)
            self.seen[wanted.number] = self.terms.reduced(
                wanted.reducer, load, axis, dtype=wanted.dtype, name=wanted.name
            )
        return self.seen[wanted.number]


def lower_split(
    graph: Graph, signature: Signature, schedule: Split | ColumnSplit
) -> tuple[tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the two kernels, and the arrays between them.

    Raises:
        UnsupportedError: an output is not one value a row, or a reduction needs another one.
    """
    rows, chunks = row_count(graph), schedule.chunks
    if any(t.size != rows for t in graph.output_types):
        raise UnsupportedError("a split reduction gives one value a row; split the region there.")
    first: Rowwise | Columnwise
    if isinstance(schedule, Split):
        first = Rowwise(schedule.lanes, 1, schedule.vector, cached=False)
        last = Rowwise(32, 1, 1, cached=False)
    else:
        first = Columnwise(schedule.strips, vector=schedule.vector)
        last = Rowwise(1, 64, 1, cached=False)
    place = result_place(rows * chunks, first)
    # Neighbouring threads keep to neighbouring results, where those are far from each other.
    is_row = isinstance(schedule, Split)
    row, chunk = (place // chunks, place % chunks) if is_row else (place % rows, place // rows)
    step = 1 if is_row else rows
    found = _chunk_reductions(graph, signature, row, chunk, chunks)
    prefix = "chunk" if any(n.startswith("partial_") for n in signature.spelled) else "partial"
    temporaries = tuple(
        Tensor(name=f"{prefix}_{i}", dtype=r.dtype, shape=(rows * chunks,))
        for i, r in enumerate(found)
    )
    stores = [Store(t.name, place, r, t.dtype) for t, r in zip(temporaries, found, strict=True)]
    rest = _final_stores(graph, signature, rows, chunks, step, [t.name for t in temporaries])
    name = kernel_name(graph)
    kernels = (
        row_kernel(f"{name}_chunks", stores, rows * chunks, signature, first),
        row_kernel(f"{name}_rest", rest, rows, signature, last),
    )
    return kernels, temporaries


def _chunk_reductions(
    graph: Graph, signature: Signature, row: Index, chunk: Index, chunks: int
) -> list[ReduceExpr]:
    builder = _Chunks(graph, signature.arrays, chunk=chunk, chunks=chunks)
    for value in graph.outputs:
        builder.element(value, unflatten(row, graph.types[value].shape))
    found = [t for t in builder.terms.listed if isinstance(t, ReduceExpr)]
    for reduced in found:
        if any(isinstance(t, ReduceExpr) for t in walk([reduced.body])):
            raise UnsupportedError("a reduction that needs another one does not split.")
        if reduced.reducer not in _SPLITTABLE:
            raise UnsupportedError(f"{reduced.reducer} does not split into chunks yet.")
    return found


def _final_stores(
    graph: Graph, signature: Signature, rows: int, chunks: int, step: int, names: list[str]
) -> list[Store]:
    row = Index.of(Axis("row", rows))
    place = row * chunks if step == 1 else row
    builder = _Partials(graph, signature.arrays, names=names, place=place, step=step, chunks=chunks)
    return [
        Store(name, row, builder.element(value, unflatten(row, type_.shape)), type_.dtype)
        for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True)
    ]
