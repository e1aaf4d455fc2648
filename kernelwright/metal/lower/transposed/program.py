"""The kernel: tiles are read along the rows of an array, and used along those of the outputs."""

import math
from collections.abc import Callable, Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Load, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.layout import Block, Line, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.lower.transposed.tile import Plane, Tile
from kernelwright.metal.schedule import Transposed
from kernelwright.metal.target.msl.spelling import MSL_TYPE


def lower_transposed(graph: Graph, signature: Signature, schedule: Transposed) -> Kernel:
    """Write one kernel whose threadgroups turn tiles of rows and columns.

    Raises:
        UnsupportedError: no array lies across the outputs, or the outputs differ in size.
    """
    plane = Plane.of(graph, signature)
    _check(plane, schedule)
    writer = Writer(
        signature.scalars,
        taken=signature.taken | {"plane", "row", "column", "start", "turn", "tile", "top", "left"},
    )
    _head(writer, plane, schedule)
    names = {tile: _declare(writer, tile) for tile in plane.tiles(schedule)}
    for tile, name in names.items():
        _fill(writer, plane, tile, name, schedule)
    writer.line("// Whole tiles are there before any is read along its other side.")
    writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
    _use(writer, plane, names, schedule)
    source = "\n".join(writer.lines) + "\n"
    used = {t.array for t in walk([s.value for s in plane.stores]) if isinstance(t, Load)}
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for s in plane.stores)),
        source=source,
        header=header_for(source),
        grid=(math.prod(_counts(plane, schedule)) * schedule.threads, 1, 1),
        threadgroup=(schedule.threads, 1, 1),
    )


def _check(plane: Plane, schedule: Transposed) -> None:
    for side in (schedule.rows, schedule.columns):
        steps = (
            side % schedule.vector,
            schedule.rows * schedule.columns % (schedule.threads * schedule.vector),
        )
        if any(steps):
            raise UnsupportedError(
                f"runs of {schedule.vector} for each of {schedule.threads} threads do not divide "
                f"tiles of {schedule.rows} x {schedule.columns}; use powers of two."
            )


def _counts(plane: Plane, schedule: Transposed) -> tuple[int, int, int]:
    """Return the planes, and the tiles along the rows and the columns of each."""
    rows = -(-plane.row.extent // schedule.rows)
    return plane.plane.extent, rows, -(-plane.column.extent // schedule.columns)


def _head(writer: Writer, plane: Plane, schedule: Transposed) -> None:
    _, rows, columns = _counts(plane, schedule)
    tile = Index.of(Axis("tile", math.prod(_counts(plane, schedule))))
    writer.line("uint tile = threadgroup_position_in_grid.x;")
    writer.line("uint turn = thread_position_in_threadgroup.x;")
    if plane.plane.extent > 1:
        writer.line(f"uint plane = {(tile // (rows * columns)).render()};")
    writer.line(f"uint top = {(tile // columns % rows * schedule.rows).render()};")
    writer.line(f"uint left = {(tile % columns * schedule.columns).render()};")


def _declare(writer: Writer, tile: Tile) -> str:
    name = writer.fresh(f"{tile.load.array}_tile")
    size = tile.rows * tile.pitch
    writer.line(f"threadgroup {MSL_TYPE[tile.stored]} {name}[{size}];")
    return name


def _fill(writer: Writer, plane: Plane, tile: Tile, name: str, schedule: Transposed) -> None:
    """Read a tile along its array's rows, and put each element where its column is."""
    vector, (row, column) = _vector(plane.row, schedule), (plane.row, plane.column)
    inner = writer.branch()
    inner.runs = {}
    span = Span(row, vector)
    found = span.whole(inner, tile.load) if vector > 1 else None
    place = f"(row - top) * {tile.pitch} + column - left"
    rows = _guard("start" if found else "row", row, schedule.rows, vector)
    guards = [*rows, *_guard("column", column, schedule.columns, 1)]

    def body(inside: Writer) -> list[Run]:
        run = found[1] if found else ""
        if found is None:
            inside.line(f"{name}[{place}] = {inside.access(tile.load.array, tile.load.offset)};")
            return []
        inside.line(f"auto run = {run};")
        with inside.block(f"for (uint k = 0; k < {vector}; ++k)"):
            inside.line("uint row = start + k;")
            inside.line(f"{name}[{place}] = run[k];")
        return []

    first = "start" if found else "row"
    _each(writer, (first, "top", schedule.rows), ("column", "left"), vector, guards, body, schedule)


def _use(writer: Writer, plane: Plane, names: dict[Tile, str], schedule: Transposed) -> None:
    """Compute the outputs' elements along their columns; what a tile holds is read from it."""
    vector, column = _vector(plane.column, schedule), plane.column
    values = [s.value for s in plane.stores]
    for tile, name in names.items():
        place = f"(row - top) * {tile.pitch} + column - left"
        writer.runs[tile.load.array, tile.load.offset] = f"{name}[{place}]"
    first = "start" if vector > 1 else "column"
    guards = [
        *_guard("row", plane.row, schedule.rows, 1),
        *_guard(first, column, schedule.columns, vector),
    ]
    writer.prepare(values, (plane.row, column))

    def element(inside: Writer) -> list[Run]:
        runs = Span(column, vector).bind(inside, values, plane.stores) if vector > 1 else []
        inside.prepare(values)
        for store in plane.stores:
            inside.store(store)
        return runs

    def body(inside: Writer) -> list[Run]:
        if vector == 1:
            return element(inside)
        inside.prepare(values, (column,))
        neighbours = Block(f"for (uint k = 0; k < {vector}; ++k)", is_span=True)
        surround(inside, (neighbours, Line("uint column = start + k;", "column")), element)
        return []

    _each(writer, (first, "left", schedule.columns), ("row", "top"), vector, guards, body, schedule)


def _each(
    writer: Writer,
    along: tuple[str, str, int],
    across: tuple[str, str],
    vector: int,
    guards: Sequence[Block],
    body: Callable[[Writer], list[Run]],
    schedule: Transposed,
) -> None:
    """Write a loop over a tile's elements, neighbouring threads on neighbouring runs of one side.

    `along` is that side's variable, where it begins, and its length.
    """
    name, begin, length = along
    other, start = across
    runs = length // vector
    steps = schedule.rows * schedule.columns // (schedule.threads * vector)
    scaled = f"turn % {runs}" + (f" * {vector}" if vector > 1 else "")
    apart = schedule.threads // runs
    lines: list[Line | Block] = [Block(f"for (uint i = 0; i < {steps}; ++i)" if steps > 1 else "")]
    lines.append(Line(f"uint {name} = {begin} + {scaled};", name))
    step = f" + i * {apart}" if steps > 1 else ""
    lines.append(Line(f"uint {other} = {start} + turn / {runs}{step};", other))
    surround(writer, (*lines, *guards), body)


def _vector(axis: Axis, schedule: Transposed) -> int:
    """Return how many neighbours are taken at once: a run never crosses the end of a row."""
    return math.gcd(axis.extent, schedule.vector)


def _guard(name: str, axis: Axis, side: int, vector: int) -> tuple[Block, ...]:
    """Return what keeps threads within an axis that tiles do not divide."""
    assert axis.extent % vector == 0
    return () if axis.extent % side == 0 else (Block(f"if ({name} < {axis.extent})"),)
