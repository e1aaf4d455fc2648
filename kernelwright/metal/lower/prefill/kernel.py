"""Attention of many queries: tiles on simdgroup matrices, online softmax between the products."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Dimensions, Kernel, Tensor
from kernelwright.metal.kernel_ir.expression import Expr, IndexValue, Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.attention.merging import result_of
from kernelwright.metal.lower.attention.terms import RESERVED_HERE, TAKEN, Attended
from kernelwright.metal.lower.emit.simdgroup_matrix import SIDE, Matrices, MatrixWriter
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.prefill.stage import PrefillStage
from kernelwright.metal.lower.prefill.tiles import PrefillTiles, axes_of
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.lower.term.operator import exponential_for
from kernelwright.metal.schedule import Prefill
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_WORDS = """
    head quad part query first last earliest strip tiles key_tile value_tile panel weights queries
    own_queries own_panel own_weights products left right is_raised here lost inner tokens m n
    key_ahead value_ahead turn next place row start
"""
_TAKEN_HERE = frozenset(_WORDS.split())
_SLACK = "8.0f"
"""How far scores may exceed what they are weighed against: weights up to exp(8) fit a half, and
what was found before hardly ever has to be brought to a new maximum."""
_OWN_BARRIER = "simdgroup_barrier(metal::mem_flags::mem_threadgroup);"
_BARRIER = "threadgroup_barrier(metal::mem_flags::mem_threadgroup);"


def lower_prefill(
    graph: Graph, schedule: Prefill, *, is_open: bool = False
) -> tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernel of an attention of many queries.

    Args:
        graph: The attention.
        schedule: How it is divided.
        is_open: Whether there are as many tiles as `tokens` ask for.

    Returns:
        The names of the arrays, the kernel, and nothing between kernels.

    Raises:
        UnsupportedError: the graph is no attention, or the schedule does not divide it.
    """
    signature, tiles = prefill_tiles(graph, schedule)
    blocks = -(-tiles.sizes.queries // tiles.queries)
    grid = tiles.grid(f"ceildiv(tokens, {tiles.queries})" if is_open else blocks)
    return signature, (_Walk(graph, signature, tiles).kernel(grid),), ()


def prefill_tiles(graph: Graph, schedule: Prefill) -> tuple[Signature, PrefillTiles]:
    """Return the names of a graph's arrays, and how a schedule divides its attention.

    Raises:
        UnsupportedError: the graph is no attention, or the schedule does not divide it.
    """
    signature = Signature.of(graph, RESERVED_HERE | _TAKEN_HERE)
    return signature, PrefillTiles.of(Attended.of(graph, signature), schedule)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The keys along which a threadgroup walks."""

    first: str
    last: str
    """Behind them."""
    step: int

    @property
    def walk(self) -> str:
        """The head of a loop over their tiles."""
        return f"for (uint first = {self.first}; first < {self.last}; first += {self.step})"


class _Walk:
    """The kernel being written; a threadgroup walks along the keys that its queries may see."""

    def __init__(self, graph: Graph, signature: Signature, tiles: PrefillTiles) -> None:
        self.graph, self.signature, self.tiles = graph, signature, tiles
        self.attended, self.schedule, self.size = tiles.attended, tiles.schedule, tiles.sizes
        self.writer = Writer(signature.scalars, taken=TAKEN | _TAKEN_HERE | {*signature.spelled})
        self.matrices = MatrixWriter(self.writer)
        self.rows, self.own = self.schedule.rows, tiles.own_queries
        self.queries = Matrices("queries", self.rows, tiles.head // SIDE)
        self.sums = Matrices("attended", self.rows, tiles.width // SIDE)
        self.exponential = exponential_for(graph)
        head, self.query, self.position = axes_of(self.size)
        self.flat = Index.of(head) * self.size.queries + Index.of(self.query)
        varying = (self.query, self.position)
        self.product = self.attended.terms.held("product", Dtype.FLOAT32, varying)
        self.score = self.attended.score(self.product, self.flat, Index.of(self.position))
        self.writer.wanted = _conditions(self.score)
        column = Axis("column", self.size.width)
        self.result = result_of(self.attended, (self.query, column))
        self.stores = self.attended.stores(signature, self.flat, Index.of(column), self.result)
        self.sink = self.attended.sink(self.flat)

    def kernel(self, grid: Dimensions) -> Kernel:
        """Write the kernel, for a grid of threads."""
        tiles = self.tiles
        stage = PrefillStage(self.signature, tiles, self.writer)
        stage.point()
        stage.declare()
        self._declare()
        self._take_queries(stage)
        seen = self._seen()
        if self.schedule.ahead:
            self._walk_ahead(stage, seen)
        else:
            self._walk(stage, seen)
        self._find_shares()
        self._write_results()
        source = "\n".join([*self._head(), *self.writer.lines]) + "\n"
        roots = [tiles.query, tiles.key, tiles.value, self.score, *(s.value for s in self.stores)]
        roots += [self.sink] if self.sink is not None else []
        loads = {t.array for t in walk(roots) if isinstance(t, Load)}
        return Kernel(
            name=kernel_name(self.graph),
            inputs=tuple(name for name, _ in self.signature.inputs if name in loads),
            outputs=tuple(s.array for s in self.stores),
            source=source,
            header=header_for(source),
            grid=grid,
            threadgroup=(tiles.threads, 1, 1),
        )

    def _walk(self, stage: PrefillStage, seen: _Seen) -> None:
        """Walk along the keys; a tile's keys and values are staged together."""
        with self.writer.block(seen.walk):
            stage.write_keys()
            self._barrier("The tiles are written before any simdgroup reads them.", _BARRIER)
            self._multiply_keys()
            self._weigh()
            self._multiply_values()
            self._barrier("They are read before the next ones take their place.", _BARRIER)

    def _walk_ahead(self, stage: PrefillStage, seen: _Seen) -> None:
        """Walk along the keys; what is multiplied next is on its way meanwhile."""
        stage.declare_ahead()
        stage.read_ahead(stage.key, seen.first)
        with self.writer.block(seen.walk):
            stage.write_ahead(stage.key)
            self._barrier("All keys are written, and the values before them read.", _BARRIER)
            stage.read_ahead(stage.value, "first")
            self._multiply_keys()
            self._weigh()
            stage.write_ahead(stage.value)
            self._barrier("All values are written, and the keys before them read.", _BARRIER)
            # The last turn asks for its own keys once more, which a cache has.
            later = f"first + {seen.step}"
            self.writer.line(f"uint next = {later} < {seen.last} ? {later} : first;")
            stage.read_ahead(stage.key, "next")
            self._multiply_values()

    def _head(self) -> list[str]:
        x, y = "threadgroup_position_in_grid.x", "threadgroup_position_in_grid.y"
        places = [f"uint block = {x};", f"uint head = {y};"]
        if self.tiles.grows:
            longest_first = f"uint block = threadgroups_per_grid.y - 1 - {y};"
            places = ["// The longest walks begin first.", longest_first, f"uint head = {x};"]
        return [
            *places,
            "uint simdgroup = simdgroup_index_in_threadgroup;",
            "uint lane = thread_index_in_simdgroup;",
            "uint quad = lane / 4;",
            "uint part = lane % 4;",
        ]

    def _declare(self) -> None:
        """Declare what a lane keeps: its part of the sums, and what its quad's queries came to."""
        self.matrices.declare(self.sums)
        # A finite start: the difference of two infinities would be NaN.
        if self.rows == 1:
            self.writer.line("float peak = -FLT_MAX;")
            self.writer.line("float total = 0.0f;")
            return
        self.writer.line(f"float peak[{self.rows}];")
        self.writer.line(f"float total[{self.rows}] = {{}};")
        with self.matrices.each("m", self.rows):
            self.writer.line("peak[m] = -FLT_MAX;")

    def _seen(self) -> _Seen:
        """Return which keys any query of this tile sees."""
        size, queries, keys = self.size, self.tiles.queries, self.schedule.keys
        if self._is_one_tile:
            return _Seen("0", str(keys), keys)
        here, window = size.keys - size.queries, size.window
        is_causal, first, last = self.attended.call.flag("is_causal"), "0", str(size.keys)
        if window:
            seen = f"metal::max(block * {queries} + {here + 1}, {window}u) - {window}"
            self.writer.line(f"uint earliest = {seen};")
            # Tiles begin at multiples of their keys, so that only the last one can be ragged.
            first = f"earliest / {keys} * {keys}"
        if is_causal or window:
            beyond = queries + here if is_causal else queries + here + window - 1
            last = f"block * {queries} + {beyond}"
            if not is_causal or size.queries % queries:
                last = f"metal::min({last}, {size.keys}u)"
            self.writer.line(f"uint last = {last};")
            last = "last"
        return _Seen(first, last, keys)

    def _take_queries(self, stage: PrefillStage) -> None:
        """Load a simdgroup's queries into matrices; keys and values come where they were staged."""
        kind, stride = MSL_TYPE[self.tiles.scored_dtype], self.tiles.head_stride
        self.matrices.declare_factors(kind, self.queries)
        with self.matrices.each("m", self.rows):
            stage.write_queries()
            self._barrier("The queries are written before any simdgroup reads its own.", _BARRIER)
            self.matrices.load_row(self.queries, "own_queries", stride)
            self._barrier("They are read before others take their place.", _BARRIER)

    def _multiply_keys(self) -> None:
        """Multiply queries and keys, and leave the products in the simdgroup's panel."""
        tiles, stride = self.tiles, self.tiles.head_stride
        kind = MSL_TYPE[tiles.scored_dtype]
        products = Matrices("products", self.rows, self.schedule.keys // SIDE)
        self.matrices.declare(products)
        depth = self.matrices.each("i", self.queries.columns)
        with depth, self.matrices.each("n", products.columns):
            start = "key_tile"
            start += f" + n * {SIDE * stride}" if products.columns > 1 else ""
            start += f" + i * {SIDE}" if self.queries.columns > 1 else ""
            place = f"{start}, {stride}, ulong2(0), true"
            self.matrices.load(kind, "right", place)
            self.matrices.multiply(self.queries, "right", products)
        with self.matrices.each_of(self.rows, products.columns):
            place = f"{self._panel(products.columns)}, {tiles.panel_stride}"
            self.writer.line(f"metal::simdgroup_store({products.at()}, {place});")
        self._barrier("A simdgroup's products are written before its lanes read them.")

    def _weigh(self) -> None:
        """Turn products into weights; the lanes of a quad share a query."""
        writer, elements = self.writer, self.schedule.keys // 4
        if not self._is_one_tile:
            if self.rows > 1:
                writer.line(f"float kept[{self.rows}];")
            writer.line("bool is_raised = false;")
        peak, total, kept = (self._of_row(name) for name in ("peak", "total", "kept"))
        with self.matrices.each("m", self.rows):
            self._write_places()
            writer.line(f"float score[{elements}];")
            writer.line("float raised = -FLT_MAX;")
            with self.matrices.each("j", elements):
                self._write_score()
                writer.line("raised = metal::max(raised, score[j]);")
            writer.line("raised = metal::quad_max(raised);")
            self._raise_peak(peak, total, kept)
            with self.matrices.each("j", elements):
                writer.line(f"float weight = {self.exponential}(score[j] - {peak});")
                writer.line(f"{total} += weight;")
                kind = MSL_TYPE[self.tiles.weighed_dtype]
                weight = "weight" if kind == "float" else f"{kind}(weight)"
                writer.line(f"{self._quad('own_weights', self.tiles.weights_stride)} = {weight};")
        self._barrier("Its weights are written before they are multiplied.")
        if self._is_one_tile:
            return
        with writer.block("if (metal::simd_any(is_raised))"):
            self._bring_to_new_peak(kept)

    @property
    def _is_one_tile(self) -> bool:
        """True where no query sees keys of more than one tile: nothing was found before."""
        return self.size.keys <= self.schedule.keys

    def _raise_peak(self, peak: str, total: str, kept: str) -> None:
        """Write where a query's scores exceed the old peak by much, and what becomes of its sum."""
        writer = self.writer
        if self._is_one_tile:
            writer.line(f"{peak} = raised;")
            return
        writer.line(f"{'' if self.rows > 1 else 'float '}{kept} = 1.0f;")
        with writer.block(f"if (raised > {peak} + {_SLACK})"):
            writer.line(f"{kept} = {self.exponential}({peak} - raised);")
            writer.line(f"{peak} = raised;")
            writer.line(f"{total} *= {kept};")
            writer.line("is_raised = true;")

    def _is_read(self, axis: Axis) -> bool:
        """Say whether a score hangs on a place, by a mask or by what can be seen from it."""
        leaves = (t for t in walk([self.score]) if t is not self.product and not t.operands)
        return any(axis in t.axes for t in leaves)

    def _write_places(self) -> None:
        """Write which query a lane weighs, and where it stands among the positions."""
        if not self._is_read(self.query):
            return
        self.writer.line(f"uint query = {self._query('quad', is_bounded=True)};")
        before = self.size.keys - self.size.queries
        here = Index.of(self.query) + before
        for term in walk([self.score]):
            if isinstance(term, IndexValue) and term.index == here:
                if before:
                    self.writer.line(f"uint here = query + {before};")
                self.writer.bind(term, "here" if before else "query")

    def _write_score(self) -> None:
        """Write one score, which a lane keeps in a register."""
        writer, is_ragged = self.writer, self.tiles.is_ragged
        if is_ragged or self._is_read(self.position):
            writer.line("uint position = first + j * 4 + part;")
        product = self._quad("own_panel", self.tiles.panel_stride)
        if len({t.number for t in walk([self.score])}) > 3:
            name = writer.fresh("product")
            writer.line(f"float {name} = {product};")
            product = name
        writer.bind(self.product, product)
        if is_ragged:
            writer.line("score[j] = -INFINITY;")
        with ExitStack() as inside:
            if is_ragged:
                inside.enter_context(writer.block(f"if (position < {self.size.keys})"))
            for term in walk([self.score]):
                if isinstance(term, IndexValue) and term.index == Index.of(self.position):
                    writer.bind(term, "position")
            writer.prepare(self.score.operands)
            writer.line(f"score[j] = {writer.expression(self.score).text};")

    def _bring_to_new_peak(self, kept: str) -> None:
        """Scale what was found before, through the panel: a matrix cannot be scaled by rows."""
        with self._each_strip():
            self._move_strip("store")
            self._barrier("The strip is written before its rows are scaled.")
            with self.matrices.each("m", self.rows), self.matrices.each("j", self.tiles.strip // 4):
                place = self._quad("own_panel", self.tiles.panel_stride)
                self.writer.line(f"{place} *= {kept};")
            self._barrier("They are scaled before they are read.")
            self._move_strip("load")
            self._barrier("They are read before others take their place.")

    def _multiply_values(self) -> None:
        """Add the values, each times its weight."""
        tiles, stride = self.tiles, self.tiles.width_stride
        kind = MSL_TYPE[tiles.weighed_dtype]
        head = f"for (uint inner = 0; inner < {self.schedule.keys}; inner += {SIDE})"
        with self.writer.block(head):
            left, weights = Matrices("left", self.rows, 1), tiles.weights_stride
            self.matrices.declare_factors(kind, left)
            with self.matrices.each("m", self.rows):
                below = f" + m * {SIDE * weights}" if self.rows > 1 else ""
                self.matrices.load_row(left, f"own_weights{below} + inner", weights)
            with self.matrices.each("n", self.sums.columns):
                column = f" + n * {SIDE}" if self.sums.columns > 1 else ""
                place = f"value_tile + inner * {stride}{column}, {stride}"
                self.matrices.load(kind, "right", place)
                self.matrices.multiply(left, "right", self.sums)

    def _find_shares(self) -> None:
        """Write by what each query's weighted sums are multiplied at last."""
        writer, sink = self.writer, ""
        if self.sink is not None:
            writer.prepare([self.sink])
            sink = writer.named(self.sink)
        peak, total, share = (self._of_row(name) for name in ("peak", "total", "share"))
        if self.rows > 1:
            writer.line(f"float share[{self.rows}];")
        with self.matrices.each("m", self.rows):
            declared = share if self.rows > 1 else f"float {share}"
            if not sink:
                writer.line(f"{declared} = 1.0f / metal::quad_sum({total});")
            else:
                writer.line(f"float raised = metal::max({peak}, {sink});")
                writer.line(f"float kept = {self.exponential}({peak} - raised);")
                writer.line(f"float lost = {self.exponential}({sink} - raised);")
                writer.line(f"{declared} = kept / (metal::quad_sum({total}) * kept + lost);")

    def _write_results(self) -> None:
        """Write what becomes of the sums, a strip at a time."""
        writer, strip, stride = self.writer, self.tiles.strip, self.tiles.panel_stride
        with self._each_strip():
            self._move_strip("store")
            self._barrier("The strip is written before it is read.")
            head = f"for (uint place = lane; place < {SIDE * strip}; place += 32)"
            with self.matrices.each("m", self.rows), writer.block(head), ExitStack() as inside:
                writer.line(f"uint row = place / {strip};")
                share = f"metal::simd_shuffle({self._of_row('share')}, row * 4)"
                below = f"(m * {SIDE} + row)" if self.rows > 1 else "row"
                place = f"own_panel[{below} * {stride} + place % {strip}]"
                writer.line(f"float result = {place} * {share};")
                writer.line(f"uint query = {self._query('row')};")
                turn = f"strip * {strip} + " if self._strips > 1 else ""
                writer.line(f"uint column = {turn}place % {strip};")
                if edges := self._edges():
                    inside.enter_context(writer.block(f"if ({edges})"))
                writer.bind(self.result, "result")
                self._store(self.stores)
            if self._strips > 1:
                self._barrier("It is read before the next one takes its place.")

    def _edges(self) -> str:
        """Return what holds inside of the output; nothing where tiles end with it."""
        pairs = (
            ("query", self.size.queries, self.tiles.queries),
            ("column", self.size.width, SIDE),
        )
        return " && ".join(f"{name} < {size}" for name, size, tile in pairs if size % tile)

    def _store(self, stores: list[Store]) -> None:
        values = [s.value for s in stores]
        loads = [t.offset for t in walk(values) if isinstance(t, Load)]
        self.writer.share_offsets([*loads, *(s.offset for s in stores)], "element")
        self.writer.prepare(values)
        for store in stores:
            self.writer.store(store)

    def _move_strip(self, direction: str) -> None:
        """Store a strip of the sums in the panel, or load it from there."""
        columns = self.tiles.strip // SIDE
        with self.matrices.each_of(self.rows, columns):
            terms = ["n"] * (columns > 1)
            if self._strips > 1:
                terms.insert(0, f"strip * {columns}" if columns > 1 else "strip")
            matrix = self.sums.at(" + ".join(terms))
            place = f"{self._panel(columns)}, {self.tiles.panel_stride}"
            self.writer.line(f"metal::simdgroup_{direction}({matrix}, {place});")

    @property
    def _strips(self) -> int:
        return self.tiles.width // self.tiles.strip

    def _each_strip(self) -> AbstractContextManager[None]:
        return self.matrices.each("strip", self._strips)

    def _of_row(self, name: str) -> str:
        return f"{name}[m]" if self.rows > 1 else name

    def _query(self, row: str, *, is_bounded: bool = False) -> str:
        """Return the query that stands in a row of a simdgroup's matrices."""
        tiles = self.tiles
        below = f" + m * {SIDE}" if self.rows > 1 else ""
        query = f"block * {tiles.queries} + simdgroup * {self.own}{below} + {row}"
        if is_bounded and self.size.queries % tiles.queries:
            return f"metal::min({query}, {self.size.queries - 1}u)"
        return query

    def _panel(self, columns: int) -> str:
        """Return where a matrix stands in the simdgroup's part of the panel."""
        below = f" + m * {SIDE * self.tiles.panel_stride}" if self.rows > 1 else ""
        return f"own_panel{below}" + (f" + n * {SIDE}" if columns > 1 else "")

    def _quad(self, tile: str, stride: int) -> str:
        """Return the element of a tile's row that is a lane's turn among its quad."""
        row = f"(m * {SIDE} + quad)" if self.rows > 1 else "quad"
        return f"{tile}[{row} * {stride} + j * 4 + part]"

    def _barrier(self, reason: str, barrier: str = _OWN_BARRIER) -> None:
        self.writer.line(f"// {reason}")
        self.writer.line(barrier)


def _conditions(score: Expr) -> frozenset[int]:
    """Return the terms that say as a whole what a query sees: they read best with a name."""
    found = [t for t in walk([score]) if t.name == "is_seen"]
    parts = {part.number for t in found for part in t.operands}
    return frozenset(t.number for t in found) - parts
