"""Short rows in threadgroup memory: read and written along memory, reduced by a lane or a few."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Load, OrderStat, ReduceExpr, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, Remainder
from kernelwright.metal.lower.emit.accumulator import joins_in_part
from kernelwright.metal.lower.emit.neighbour import PACKED
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.body import Rows
from kernelwright.metal.lower.rowwise.passes import column_of, loops
from kernelwright.metal.lower.rowwise.stores import row_count, row_stores
from kernelwright.metal.lower.term.build import REDUCED_AXIS
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Rowwise, Tiled
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_TRIED_ROWS = 8
_SIMDGROUP = 32
"""Its lanes, on Apple's chips and NVIDIA's."""
_WORDS = (4, 2)
"""Elements that a thread may move at a time: Metal's vectors end there."""


@dataclass(frozen=True)
class Tile:
    """An array's elements of a threadgroup's rows, which lie side by side in memory."""

    array: str
    stored: Dtype
    base: Index
    """Where the tile begins."""
    rows: Index
    """Where a row begins in it."""
    elements: int
    begin: Index
    """Where a row begins in the array."""
    period: int = 0
    """Elements of an array that all rows of the kernel walk through again and again; else 0."""

    @property
    def word(self) -> int:
        """Elements of the vectors that make the tile, 1 where none do."""
        if self.stored not in PACKED:
            return 1
        whole = math.gcd(self.elements, self.period)
        return next((word for word in _WORDS if whole % word == 0), 1)

    @property
    def kind(self) -> str:
        """What stands in threadgroup memory, a number or a vector."""
        if self.word == 1:
            return MSL_TYPE[self.stored]
        return f"{PACKED[self.stored].removeprefix('packed_')}{self.word}"

    @property
    def nbytes(self) -> int:
        """Bytes of threadgroup memory."""
        return self.elements * self.stored.itemsize

    def place(self, base: str) -> str:
        """Return where the i-th word of the tile stands in the array."""
        text = f"{base} + i" if self.word == 1 else f"{base} + i * {self.word}"
        return f"({text}) % {self.period}" if self.period else text


@dataclass(frozen=True)
class Tiles:
    """What a graph's rows are read from and written to."""

    stores: tuple[Store, ...]
    read: tuple[Tile, ...]
    written: tuple[Tile, ...]
    shared: dict[str, str]
    """Outputs whose rows take the place of an input's, by name."""

    @classmethod
    def of(cls, graph: Graph, signature: Signature, schedule: Tiled) -> "Tiles":
        """Find the arrays of which a threadgroup's rows lie side by side.

        Raises:
            UnsupportedError: there is none, or the rows do not divide.
        """
        rows = row_count(graph)
        if rows % schedule.rows or rows == schedule.rows:
            raise UnsupportedError(
                f"{schedule.rows} rows a threadgroup do not divide {rows} rows; use a divisor."
            )
        row = Index.of(Axis("tile", rows // schedule.rows)) * schedule.rows
        stores = row_stores(graph, signature, rows, row + Index.of(Axis("row", schedule.rows)))
        _check(stores, schedule)
        accesses: dict[str, set[tuple[Index, Dtype]]] = {}
        for term in walk([s.value for s in stores]):
            if isinstance(term, Load) and term.array not in signature.scalars:
                accesses.setdefault(term.array, set()).add((term.offset, term.stored))
        read = _tiles(accesses, schedule)
        into = {s.array: {(s.offset, s.stored)} for s in stores if column_of(s) is not None}
        written = _tiles(into, schedule)
        if not read or len(written) != len(into):
            raise UnsupportedError(
                "no rows lie side by side where they are read and written; use rowwise."
            )
        return cls(tuple(stores), read, written, _shared(read, written))

    @property
    def nbytes(self) -> int:
        """Bytes of threadgroup memory."""
        own = [t for t in self.written if t.array not in self.shared]
        return sum(t.nbytes for t in (*self.read, *own))


def _check(stores: Sequence[Store], schedule: Tiled) -> None:
    terms = list(walk([s.value for s in stores]))
    if schedule.lanes == 1:
        return
    if any(isinstance(t, OrderStat) for t in terms):
        raise UnsupportedError("lanes that share a short row find no ranks; use lanes=1.")
    found = [t for t in terms if isinstance(t, ReduceExpr)]
    if schedule.lanes not in (2, 4, 8, 16) or not all(map(joins_in_part, found)):
        raise UnsupportedError(f"{schedule.lanes} lanes do not join these reductions; use lanes=1.")


def _tiles(accesses: dict[str, set[tuple[Index, Dtype]]], schedule: Tiled) -> tuple[Tile, ...]:
    found = []
    for array, places in accesses.items():
        tile = _tile(array, *next(iter(places)), schedule) if len(places) == 1 else None
        found += [tile] if tile is not None else []
    return tuple(found)


def _tile(array: str, offset: Index, stored: Dtype, schedule: Tiled) -> Tile | None:
    """Return the elements that all rows of a threadgroup have, if they lie side by side."""
    column = next((a for a in offset.axes if a.name == REDUCED_AXIS), None)
    if column is None or offset.places or not offset.coefficient(column):
        return None
    if (period := _period(offset, column, schedule)) is not None:
        return Tile(array, stored, *period)
    row = Axis("row", schedule.rows)
    base = offset.without((column, row))
    inside = offset.minus(base)
    elements = schedule.rows * column.extent
    if any(a.name not in ("row", REDUCED_AXIS) for a in inside.axes):
        return None
    # Every row and column has a place of its own, so that the bounds are met by all between.
    if inside.bounds != (0, elements - 1):
        return None
    rows = inside.without((column,))
    return Tile(array, stored, base, rows, elements, base + rows)


def _period(
    offset: Index, column: Axis, schedule: Tiled
) -> tuple[Index, Index, int, Index, int] | None:
    """Return how a tile lies in an array of some rows that all rows of the kernel repeat."""
    begin = offset.without((column,))
    match begin.terms:
        case ((Remainder(of=place, by=rows), step),) if step == column.extent:
            tile = next((a for a in place.axes if a.name == "tile"), None)
        case _:
            return None
    if tile is None or offset.coefficient(column) != 1 or begin.offset:
        return None
    row = Index.of(Axis("row", schedule.rows))
    if place != Index.of(tile) * schedule.rows + row:
        return None
    elements = schedule.rows * column.extent
    return Index.of(tile) * elements, row * column.extent, elements, begin, rows * column.extent


def _shared(read: Sequence[Tile], written: Sequence[Tile]) -> dict[str, str]:
    """Let outputs take the place of inputs of the same elements: a lane reads its own first."""
    shared: dict[str, str] = {}
    for output in written:
        for tile in read:
            is_same = (tile.begin, tile.rows, tile.stored) == (
                output.begin,
                output.rows,
                output.stored,
            )
            if is_same and tile.array not in shared.values():
                shared[output.array] = tile.array
                break
    return shared


@dataclass
class _TiledRows(Rows):
    """Rows whose place is counted within a threadgroup."""

    def _head(self) -> list[str]:
        assert isinstance(self.schedule, Rowwise)
        axis = "x" if self.schedule.lanes == 1 else "y"
        head = [f"uint tile = threadgroup_position_in_grid.{axis};"]
        head.append(f"uint row = thread_position_in_threadgroup.{axis};")
        if self.schedule.lanes > 1:
            head.append("uint lane = thread_position_in_threadgroup.x;")
        head.append("uint turn = thread_index_in_threadgroup;")
        if self.writer.mentions("columns"):
            head.insert(0, f"constexpr uint columns = {self.columns};")
        return [line for line in head if self._is_read(line)]


def lower_tiled(graph: Graph, signature: Signature, schedule: Tiled) -> Kernel:
    """Write one kernel whose threadgroups hold whole rows.

    Raises:
        UnsupportedError: the rows do not lie side by side, or do not divide.
    """
    tiles = Tiles.of(graph, signature, schedule)
    early = loops(tiles.stores, online=False)
    if any(loop.stores and not loop.is_map for loop in early) and tiles.shared:
        # What is written while others of the row are still to be read has a place of its own.
        tiles = Tiles(tiles.stores, tiles.read, tiles.written, {})
    writer = Writer(signature.scalars, taken=signature.taken | {"turn", "tile", "row", "lane"})
    names = _place(writer, tiles, schedule)
    inner = Rowwise(schedule.lanes, schedule.rows, 1, cached=schedule.cached)
    back = [
        "// Whole rows are there before any is written.",
        "threadgroup_barrier(metal::mem_flags::mem_threadgroup);",
    ] * bool(tiles.written)
    back += [line for tile in tiles.written for line in _write_back(tile, names, schedule)]
    source = _TiledRows(writer, tiles.stores, inner, signature.spelled, after=back).write()
    used = {t.array for t in walk([s.value for s in tiles.stores]) if isinstance(t, Load)}
    count = row_count(graph)
    wide = (schedule.lanes, schedule.rows, 1) if schedule.lanes > 1 else (schedule.rows, 1, 1)
    grid = (schedule.lanes, count, 1) if schedule.lanes > 1 else (count, 1, 1)
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for s in tiles.stores)),
        source=source,
        header=header_for(source),
        grid=grid,
        threadgroup=wide,
    )


def _place(writer: Writer, tiles: Tiles, schedule: Tiled) -> dict[str, str]:
    """Write what brings the tiles, and say where each row stands; return the tiles' names."""
    names: dict[str, str] = {}
    own = [t for t in tiles.written if t.array not in tiles.shared]
    for tile in (*tiles.read, *own):
        names[tile.array] = writer.fresh(f"{tile.array}_tile")
        count = tile.elements // tile.word
        writer.line(f"threadgroup {tile.kind} {names[tile.array]}[{count}];")
    names |= {output: names[array] for output, array in tiles.shared.items()}
    threads = schedule.lanes * schedule.rows
    for tile in tiles.read:
        base, name = writer.index(tile.base), names[tile.array]
        text = f"{tile.array}[{tile.place(base)}]"
        if tile.word > 1:
            place = f"{tile.array} + ({tile.place(base)})"
            text = f"{tile.kind}(load_run<packed_{tile.kind}>({place}))"
        with writer.block(_each(tile.elements // tile.word, threads)):
            writer.line(f"{name}[i] = {text};")
    writer.line("// Whole rows are there before any is reduced.")
    writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
    for tile in (*tiles.read, *tiles.written):
        row, first = writer.fresh(f"{tile.array}_row"), names[tile.array]
        if tile.word > 1:
            first = f"(threadgroup {MSL_TYPE[tile.stored]}*){first}"
        begin = writer.index(tile.rows)
        writer.line(f"auto {row} = {first}" + (f" + {begin};" if tile.rows.terms else ";"))
        writer.pointers[tile.array, tile.begin] = row
    return names


def _write_back(tile: Tile, names: dict[str, str], schedule: Tiled) -> list[str]:
    base, name = tile.base.render(), names[tile.array]
    written = f"{tile.array}[{tile.place(base)}] = {name}[i];"
    if tile.word > 1:
        address = f"(device packed_{tile.kind}*)({tile.array} + ({tile.place(base)}))"
        written = f"*{address} = packed_{tile.kind}({name}[i]);"
    head = _each(tile.elements // tile.word, schedule.lanes * schedule.rows)
    return [f"{head} {{", f"  {written}", "}"]


def _each(count: int, threads: int) -> str:
    return f"for (uint i = turn; i < {count}; i += {threads})"


def tile_rows(graph: Graph, lanes: int, wanted: int) -> int:
    """Return a divisor of the rows near to a wanted number that fills simdgroups.

    Of such, one with which most arrays have tiles; 0 where there is none.
    """
    rows, signature = row_count(graph), Signature.of(graph)
    near = [n for n in range(2, min(rows // 2, 2 * wanted) + 1) if rows % n == 0]
    near.sort(key=lambda n: abs(math.log2(n / wanted)))

    def tiled(count: int) -> tuple[bool, int, int]:
        try:
            tiles = Tiles.of(graph, signature, Tiled(lanes, count))
        except UnsupportedError:
            return False, 0, 0
        # Reading what has no tile row by row costs less than idle lanes do at every step.
        is_full = lanes * count % _SIMDGROUP == 0
        return is_full, len(tiles.read), min(t.word for t in (*tiles.read, *tiles.written))

    return max(near[:_TRIED_ROWS], key=tiled, default=0)
