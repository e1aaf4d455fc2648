"""Bringing an attention's queries, keys and values into threadgroup memory, tile by tile."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Expr, Load, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.layout import span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.simdgroup_matrix import SIDE
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.prefill.tiles import PrefillTiles
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_ACCESS_BYTES = 16
"""Bytes that a thread reads at once."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Rows that are staged together, as elements of one term."""

    role: str
    name: str
    """Of the array where they stand."""
    term: Expr
    rows: int
    features: int
    whole: int
    """Features filled up to whole matrices."""
    stride: int
    dtype: Dtype

    @property
    def vector(self) -> int:
        """Neighbours that a thread reads at once."""
        most = _ACCESS_BYTES // self.dtype.itemsize
        return next(v for v in (8, 4, 2, 1) if v <= most and self.features % v == 0)

    @property
    def walk(self) -> tuple[int, int, int, int]:
        """What a loop over its runs hangs on."""
        return self.rows, self.features, self.whole, self.vector

    @property
    def copied(self) -> Load | None:
        """The element of an array that is staged as it is, if it is one."""
        term = self.term
        return term if isinstance(term, Load) and term.stored is self.dtype else None

    @property
    def zero(self) -> str:
        """What stands behind the last feature."""
        return "bfloat16_t(0.0f)" if self.dtype is Dtype.BFLOAT16 else "0.0f"


class PrefillStage:
    """Writes the tiles of a kernel and what fills them."""

    def __init__(self, signature: Signature, tiles: PrefillTiles, writer: Writer) -> None:
        self.signature, self.tiles, self.writer = signature, tiles, writer
        size, keys = tiles.sizes, tiles.schedule.keys
        scored = (size.head, tiles.head, tiles.head_stride, tiles.scored_dtype)
        weighed = (size.width, tiles.width, tiles.width_stride, tiles.weighed_dtype)
        self.query = _Tile("query", "tiles", tiles.query, tiles.staged_queries, *scored)
        self.key = _Tile("key", "key_tile", tiles.key, keys, *scored)
        self.value = _Tile("value", "value_tile", tiles.value, keys, *weighed)

    def point(self) -> None:
        """Point at a head's queries, keys and values, so that only places in them remain."""
        for term in walk([self.tiles.query, self.tiles.key, self.tiles.value]):
            if not isinstance(term, Load) or term.places:
                continue
            inner = (a for a in term.offset.axes if a.name in ("query", "position", "feature"))
            base = term.offset.without(inner)
            if base.terms and (term.array, base) not in self.writer.pointers:
                name = self.writer.fresh(f"{term.array}_head")
                self.writer.line(f"// {term.array}: {self.signature.spelled[term.array]}")
                self.writer.line(f"auto {name} = {term.array} + {self.writer.index(base)};")
                self.writer.pointers[term.array, base] = name

    def declare(self) -> None:
        """Declare the tiles, and where a simdgroup's own rows of them begin."""
        tiles, own, keys = self.tiles, self.tiles.own_queries, self.tiles.schedule.keys
        scored, weighed = MSL_TYPE[tiles.scored_dtype], MSL_TYPE[tiles.weighed_dtype]
        self.writer.line(f"threadgroup {scored} tiles[{tiles.staged}];")
        self.writer.line(f"threadgroup {scored}* key_tile = tiles;")
        if tiles.is_shared:
            value_tile = f"tiles + {keys * tiles.head_stride}"
            self.writer.line(f"threadgroup {weighed}* value_tile = {value_tile};")
        else:
            self.writer.line(f"threadgroup {weighed} value_tile[{keys * tiles.width_stride}];")
        self.writer.line(f"threadgroup float panel[{tiles.queries * tiles.panel_stride}];")
        self.writer.line(f"threadgroup {weighed} weights[{tiles.queries * tiles.weights_stride}];")
        for kind, name, tile, stride in (
            (scored, "own_queries", "tiles", SIDE * tiles.head_stride),
            ("float", "own_panel", "panel", own * tiles.panel_stride),
            (weighed, "own_weights", "weights", own * tiles.weights_stride),
        ):
            start = f"{tile} + simdgroup * {stride}"
            self.writer.line(f"threadgroup {kind}* {name} = {start};")

    def write_queries(self) -> None:
        """Stage eight queries of each simdgroup, in a loop over `m` where it has more."""
        tiles = self.tiles
        place = f"block * {tiles.queries} + row"
        if tiles.schedule.rows > 1:
            own = f"row / {SIDE} * {tiles.own_queries} + m * {SIDE} + row % {SIDE}"
            place = f"block * {tiles.queries} + {own}"
        # What stands behind the last query reads it again; nothing of it is stored.
        if tiles.sizes.queries % tiles.queries:
            place = f"metal::min({place}, {tiles.sizes.queries - 1}u)"
        self._write([self.query], "query", place)

    def write_keys(self) -> None:
        """Stage the keys and values of a turn; behind the last key it stands again."""
        place = self._position("first")
        are_copied = self.key.copied is not None and self.value.copied is not None
        if are_copied and self.key.walk == self.value.walk:
            self._write([self.key, self.value], "position", place)
            return
        for tile in (self.key, self.value):
            self._write([tile], "position", place)

    @property
    def can_read_ahead(self) -> bool:
        """True where keys and values are only copied, and every thread has as much to copy."""
        return all(
            tile.copied is not None
            and self._run(tile).whole(self.writer, tile.copied) is not None
            and tile.whole == tile.features
            and tile.rows * tile.whole // tile.vector % self.tiles.threads == 0
            for tile in (self.key, self.value)
        )

    def declare_ahead(self) -> None:
        """Declare what keeps a thread's part of a tile of keys, and of one of values.

        Raises:
            UnsupportedError: keys or values are computed, or threads have unequal parts.
        """
        if not self.can_read_ahead:
            raise UnsupportedError(
                "keys and values are read ahead where they are copied as they are and each of "
                f"{self.tiles.threads} threads has equal parts of their tiles; lower ahead to 0."
            )
        for tile in (self.key, self.value):
            self.writer.line(f"{self._copied(tile)[0]} {tile.role}_ahead[{self._turns(tile)}];")

    def read_ahead(self, tile: _Tile, first: str) -> None:
        """Ask for a thread's part of the rows that begin at a key."""
        place = self._position(first)
        with self._each_turn(tile):
            self.writer.line(f"uint position = {place};")
            self.writer.line(f"{tile.role}_ahead[turn] = {self._copied(tile)[1]};")

    def write_ahead(self, tile: _Tile) -> None:
        """Write a thread's part of a tile, which was asked for before."""
        with self._each_turn(tile):
            place = f"{tile.name} + row * {tile.stride} + start"
            kind = self._copied(tile)[0]
            self.writer.line(f"*(threadgroup {kind}*)({place}) = {tile.role}_ahead[turn];")
            self._clear_behind(tile)

    def _position(self, first: str) -> str:
        """Return where a row of the tile that begins at `first` lies; behind the last key, it."""
        position = "row" if first == "0" else f"{first} + row"
        if self.tiles.is_ragged:
            return f"metal::min({position}, {self.tiles.sizes.keys - 1}u)"
        return position

    def _turns(self, tile: _Tile) -> int:
        """Return how many runs of a tile each thread takes."""
        return tile.rows * tile.whole // tile.vector // self.tiles.threads

    def _run(self, tile: _Tile) -> Span:
        return Span(Axis("feature", tile.features), tile.vector, counter="i")

    def _copied(self, tile: _Tile) -> tuple[str, str]:
        """Return the type of a run that is copied, and what reads it."""
        read = tile.copied and self._run(tile).whole(self.writer, tile.copied)
        assert read
        return read

    @contextmanager
    def _each_turn(self, tile: _Tile) -> Iterator[None]:
        """Walk over a thread's runs of a tile."""
        turns, runs = self._turns(tile), tile.whole // tile.vector
        self.writer.line("#pragma unroll")
        with self.writer.block(f"for (uint turn = 0; turn < {turns}; ++turn)"):
            threads = self.tiles.threads
            self.writer.line(f"uint place = thread_index_in_threadgroup + turn * {threads};")
            self.writer.line(f"uint row = place / {runs};")
            self.writer.line(f"uint start = place % {runs} * {tile.vector};")
            yield

    def _write(self, tiles: Sequence[_Tile], name: str, place: str) -> None:
        """Bring rows into tiles of one walk, in runs of neighbours; `place` is where `row` lies."""
        tile = tiles[0]
        vector = tile.vector
        runs = tile.whole // vector
        start = "start" if vector > 1 else "feature"
        with self._threads_over(tile.rows * runs):
            self.writer.line(f"uint row = place / {runs};")
            self.writer.line(f"uint {name} = {place};")
            times = f" * {vector}" if vector > 1 else ""
            self.writer.line(f"uint {start} = place % {runs}{times};")
            with ExitStack() as inside:
                if tile.whole > tile.features:
                    with self._each(vector):
                        for padded in tiles:
                            self.writer.line(f"{self._place(padded)} = {padded.zero};")
                    inside.enter_context(self.writer.block(f"if ({start} < {tile.features})"))
                self._write_runs(tiles)
                for written in tiles:
                    self._clear_behind(written)

    def _clear_behind(self, tile: _Tile) -> None:
        """Write zeros for values behind the last: an infinity times no weight is NaN."""
        if tile.role != "value" or not self.tiles.is_ragged:
            return
        is_behind = self.writer.block(f"if (first + row >= {self.tiles.sizes.keys}u)")
        with is_behind, self._each(tile.vector):
            self.writer.line(f"{self._place(tile)} = {tile.zero};")

    def _write_runs(self, tiles: Sequence[_Tile]) -> None:
        """Write a run of each tile's row: in one access where it is only copied."""
        stores: list[str] = []
        for tile in tiles:
            run = self._run(tile)
            copied = tile.copied
            if copied is not None and (read := run.whole(self.writer, copied)) is not None:
                kind, text = read
                name = self.writer.fresh(f"{copied.array}_run")
                self.writer.line(f"auto {name} = {text};")
                place = f"{tile.name} + row * {tile.stride} + start"
                stores.append(f"*(threadgroup {kind}*)({place}) = {name};")
            else:
                self._write_elements(tile, run)
        # All are asked for before any is waited for.
        for line in stores:
            self.writer.line(line)

    def _write_elements(self, tile: _Tile, run: Span) -> None:
        """Write a run of a row that is computed, or whose elements have no packed vector."""

        def body(inner: Writer) -> list[Run]:
            runs = run.bind(inner, [tile.term], ())
            inner.prepare([tile.term])
            element = inner.expression(tile.term).text
            if tile.copied is not None:
                element = inner.access(tile.copied.array, tile.copied.offset)
            inner.line(f"{self._place(tile)} = {element};")
            return runs

        surround(self.writer, span("feature", tile.vector, "i") if tile.vector > 1 else (), body)

    def _place(self, tile: _Tile) -> str:
        place = "start + i" if tile.vector > 1 else "feature"
        return f"{tile.name}[row * {tile.stride} + {place}]"

    @contextmanager
    def _each(self, vector: int) -> Iterator[None]:
        if vector == 1:
            yield
            return
        with self.writer.block(f"for (uint i = 0; i < {vector}; ++i)"):
            yield

    @contextmanager
    def _threads_over(self, elements: int) -> Iterator[None]:
        """Let each thread of a threadgroup take elements in turn."""
        mine, threads = "uint place = thread_index_in_threadgroup", self.tiles.threads
        if elements > threads:
            head = f"for ({mine}; place < {elements}; place += {threads})"
            with self.writer.block(head):
                yield
            return
        with self.writer.block(f"if (thread_index_in_threadgroup < {elements})"):
            self.writer.line(f"{mine};")
            yield
