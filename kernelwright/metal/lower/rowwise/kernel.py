"""Row-wise map, reduce, map: lanes share a row, or a thread takes it alone."""

from collections.abc import Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.metal.kernel import Dimensions, Kernel
from kernelwright.metal.kernel_ir.expression import Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.side_by_side import part_signature, side_by_side
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.body import Rows
from kernelwright.metal.lower.rowwise.column_runs import place_in_runs, write_column_runs
from kernelwright.metal.lower.rowwise.stores import row_count, row_stores
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Columnwise, Rowwise


def lower_rowwise(graph: Graph, signature: Signature, schedule: Rowwise | Columnwise) -> Kernel:
    """Write one kernel for a graph whose reductions all run over the same rows.

    Raises:
        UnsupportedError: the graph is no row-wise computation.
    """
    rows = row_count(graph)
    stores = row_stores(graph, signature, rows, result_place(rows, schedule))
    return row_kernel(kernel_name(graph), stores, rows, signature, schedule)


def lower_row_parts(
    graph: Graph, parts: Sequence[Region], signature: Signature, schedule: Rowwise
) -> Kernel:
    """Write one kernel for parts with rows of their own, those of one part behind those before.

    Raises:
        UnsupportedError: a part is no row-wise computation, or a simdgroup has rows of two.
    """
    if not is_apart(parts, schedule):
        raise UnsupportedError("a simdgroup would have rows of two parts; use lanes=32.")
    kernels = [
        lower_rowwise(part.bare(), part_signature(signature, part), schedule) for part in parts
    ]
    axis = 0 if schedule.lanes == 1 else 1
    place = f"thread_position_in_grid.{'xy'[axis]}"
    return side_by_side(graph, kernels, axis=axis, attribute=place)


def is_apart(parts: Sequence[Region], schedule: Rowwise) -> bool:
    """Say whether lanes that share a row take the same branch as all of their simdgroup."""
    counts = [row_count(part.bare()) for part in parts[:-1]]
    return schedule.lanes == 1 or all(n * schedule.lanes % 32 == 0 for n in counts)


def result_place(rows: int, schedule: Rowwise | Columnwise) -> Index:
    """Return where a row's result stands among `rows`, as a schedule counts them."""
    if isinstance(schedule, Columnwise) and schedule.vector > 1:
        return place_in_runs(rows, schedule.vector)
    return Index.of(Axis("row", rows))


def row_kernel(
    name: str,
    stores: Sequence[Store],
    rows: int,
    signature: Signature,
    schedule: Rowwise | Columnwise,
) -> Kernel:
    """Write the kernel of some stores over `rows` rows."""
    loads = [t for t in walk([s.value for s in stores]) if isinstance(t, Load)]
    used = tuple(dict.fromkeys(load.array for load in loads))
    # What is no input of the program comes from a kernel before this one.
    spelled = {t.array: str(t.stored.short) for t in loads} | signature.spelled
    writer = Writer(signature.scalars, taken=signature.taken | {*used}, shared=signature.shared)
    if isinstance(schedule, Columnwise) and schedule.vector > 1:
        source = write_column_runs(writer, stores, schedule)
    else:
        source = Rows(writer, stores, schedule, spelled).write()
    grid, threadgroup = _launch(rows, schedule)
    inputs = [array for array, _ in signature.inputs if array in used]
    return Kernel(
        name=name,
        inputs=tuple(dict.fromkeys((*inputs, *used))),
        outputs=tuple(dict.fromkeys(s.array for s in stores)),
        source=source,
        header=header_for(source),
        grid=grid,
        threadgroup=threadgroup,
    )


def _launch(rows: int, schedule: Rowwise | Columnwise) -> tuple[Dimensions, Dimensions]:
    if isinstance(schedule, Columnwise):
        return (rows // schedule.vector, schedule.strips, 1), (32, schedule.strips, 1)
    if schedule.lanes == 1:
        return (rows, 1, 1), (schedule.rows, 1, 1)
    return (schedule.lanes, rows, 1), (schedule.lanes, schedule.rows, 1)
