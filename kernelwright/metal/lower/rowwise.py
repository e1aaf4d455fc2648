"""Row-wise map, reduce, map: lanes share a row, reduce it in passes and write what they mapped."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.alignment import reduced_axes
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ranking import MAX_RANKED, RANKED, is_ranked, ranked_shape
from kernelwright.ir.row_order import plain_rows
from kernelwright.metal.kernel import Dimensions, Kernel
from kernelwright.metal.lower.accumulator import (
    Team,
    compensate,
    declare,
    finish,
    is_compensated,
    is_position,
    update,
)
from kernelwright.metal.lower.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.column_runs import place_in_runs, write_column_runs
from kernelwright.metal.lower.function import header_for
from kernelwright.metal.lower.index import Axis, Index, flatten, unflatten
from kernelwright.metal.lower.layout import Block, Walk, surround, walk_of
from kernelwright.metal.lower.online import (
    Pair,
    declare_online,
    finish_online,
    look_online,
    raise_online,
    update_online,
)
from kernelwright.metal.lower.operator import MSL_TYPE
from kernelwright.metal.lower.parts import PartBuilder, Parts, is_straight, parts_of, places_of
from kernelwright.metal.lower.passes import Loop, column_of, kept_between, loops
from kernelwright.metal.lower.ranking import Ranking
from kernelwright.metal.lower.run import Run, Span
from kernelwright.metal.lower.run_peak import RunPeak, RunPosition
from kernelwright.metal.lower.signature import Signature, kernel_name
from kernelwright.metal.lower.term import Load, Ranked, Reduced, Store, Term, walk
from kernelwright.metal.lower.writer import Writer
from kernelwright.metal.schedule import Columnwise, Rowwise


def lower_rowwise(graph: Graph, signature: Signature, schedule: Rowwise | Columnwise) -> Kernel:
    """Write one kernel for a graph whose reductions all run over the same rows.

    Raises:
        UnsupportedError: the graph is no row-wise computation.
    """
    rows = row_count(graph)
    stores = row_stores(graph, signature, rows, result_place(rows, schedule))
    return row_kernel(kernel_name(graph), stores, rows, signature, schedule)


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
    writer = Writer(signature.scalars, taken=signature.taken | {*used})
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


def row_count(graph: Graph) -> int:
    """Return the rows over which a graph's reductions run.

    Raises:
        UnsupportedError: they run over different ones, or there is none.
    """
    counts: set[int] = set()
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.REDUCTION:
            type_ = graph.types[node.outputs[0]]
            source = graph.types[node.inputs[0]]
            same = node.op == "softmax"
            counts.add(source.size // source.shape[-1] if same else type_.size)
        if node.op in RANKED:
            shape = graph.types[node.inputs[0]].shape
            counts.add(math.prod(shape[:-1]))
    if not counts and (plain := plain_rows(graph)):
        shape, axes = plain
        return math.prod(shape[: axes[0]])
    if len(counts) != 1:
        raise UnsupportedError(
            f"a row-wise kernel reduces over one set of rows, found {len(counts)}; split the "
            "region there."
        )
    return counts.pop()


def row_stores(
    graph: Graph, signature: Signature, rows: int, row: Index | None = None
) -> list[Store]:
    """Return what every element of every output is, over a row axis and a column axis.

    `row` is where a row stands among `rows`, an axis of its own unless told.
    """
    if row is not None and row != Index.of(Axis("row", rows)):
        return _stores(Builder(graph, signature.arrays), signature, rows, row)
    parts = _parts(graph, rows)
    if parts is not None:
        try:
            stores = _part_stores(
                PartBuilder(graph, signature.arrays, parts=parts), signature, rows
            )
        except UnsupportedError:
            # An output that runs across the rows has no parts of theirs.
            stores = []
        if stores and is_straight(stores):
            return stores
    return _stores(Builder(graph, signature.arrays), signature, rows, Index.of(Axis("row", rows)))


def _parts(graph: Graph, rows: int) -> Parts | None:
    """Return the parts of which a graph puts its rows together, if it has any."""
    shape, axes = _reduced_axes(graph)
    sizes = {t.size // rows for t in graph.output_types}
    if axes != (len(shape) - 1,) or not sizes <= {1, shape[-1]}:
        return None
    return parts_of(graph, shape[-1])


def _part_stores(builder: PartBuilder, signature: Signature, rows: int) -> list[Store]:
    """Return a store for each part of every output with a row's elements."""
    graph, parts = builder.graph, builder.parts
    row = Index.of(Axis("row", rows))
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        columns = type_.size // rows
        for place in places_of(parts) if columns == parts.length else [Index()]:
            term = builder.element(value, unflatten(row * columns + place, type_.shape))
            stores.append(Store(name, row * columns + place, term, type_.dtype))
    return stores


def _stores(builder: Builder, signature: Signature, rows: int, row: Index) -> list[Store]:
    graph = builder.graph
    reduced = _reduced_place(graph, row)
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        if type_.size % rows:
            raise UnsupportedError(f"the output {name} {type_} has no part per row.")
        columns = type_.size // rows
        if value in builder.ranked and columns <= MAX_RANKED:
            stores += _ranked_stores(builder, value, name, row)
            continue
        place = row * columns + Index.of(Axis(REDUCED_AXIS, columns))
        if columns > 1 and type_.size == reduced.size:
            stores.append(_element_store(builder, value, name, reduced))
            continue
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    return stores


def _ranked_stores(builder: Builder, value: ValueId, name: str, row: Index) -> list[Store]:
    """Return a store for each of the few elements of a row, every one of a rank of its own."""
    type_ = builder.graph.types[value]
    columns = type_.size // max(1, row.bounds[1] + 1)
    places = [row * columns + column for column in range(columns)]
    return [
        Store(name, p, builder.element(value, unflatten(p, type_.shape)), type_.dtype)
        for p in places
    ]


def _element_store(builder: Builder, value: ValueId, name: str, reduced: "_Reduced") -> Store:
    """Return the store of an output with the elements that are reduced, wherever views put them."""
    graph, views = builder.graph, list[Node]()
    inner = value
    while graph.types[inner].shape != reduced.shape and inner in graph.producer_of:
        node = graph.nodes[graph.producer_of[inner]]
        if node.op not in ("reshape", "transpose"):
            break
        views.append(node)
        inner = node.inputs[0]
    if graph.types[inner].shape != reduced.shape:
        views, inner = [], value
    place = reduced.place
    term = builder.element(inner, unflatten(place, graph.types[inner].shape))
    for node in reversed(views):
        if node.op == "transpose":
            places = unflatten(place, graph.types[node.inputs[0]].shape)
            turned = [places[axis] for axis in Call.of(graph, node).integers("axes")]
            place = flatten(turned, graph.types[node.outputs[0]].shape)
    return Store(name, place, term, graph.types[value].dtype)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """Where the element of a row and a column stands in what the reductions reduce."""

    place: Index
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def _reduced_place(graph: Graph, row: Index) -> _Reduced:
    shape, axes = _reduced_axes(graph)
    length = math.prod(shape[axis] for axis in axes)
    column = Index.of(Axis(REDUCED_AXIS, length))
    along = dict(zip(axes, unflatten(column, [shape[a] for a in axes]), strict=True))
    kept = [i for i in range(len(shape)) if i not in axes]
    across = dict(zip(kept, unflatten(row, [shape[i] for i in kept]), strict=True))
    places = [along[i] if i in along else across[i] for i in range(len(shape))]
    return _Reduced(flatten(places, shape), shape)


def _reduced_axes(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of which rows are reduced or ranked, and the axes of a row."""
    if is_ranked(graph):
        shape = ranked_shape(graph)
        return shape, (len(shape) - 1,)
    node = next((n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION), None)
    if node is None:
        plain = plain_rows(graph)
        assert plain is not None, "rows are counted before"
        return plain
    call = Call.of(graph, node)
    return call.inputs[0].shape, reduced_axes(call, node.op)


@dataclass
class Rows:
    """One row-wise kernel being written."""

    writer: Writer
    stores: Sequence[Store]
    schedule: Rowwise | Columnwise
    types: Mapping[str, str]
    """Arrays as people read them, by name."""
    columns: int = 0
    slots: dict[int, tuple[str, str]] = field(default_factory=dict)
    """(register array, place in it) by the number of the term that is kept there."""

    def write(self) -> str:
        """Return the kernel's body."""
        sequence = loops(self.stores, online=self.schedule.online)
        self.columns = max((loop.axis.extent for loop in sequence), default=1)
        self.writer.factors = {self.columns: "columns"} if self.columns > 1 else {}
        self.writer.taken |= {"columns"}
        self._pointers()
        keeps = isinstance(self.schedule, Rowwise) and self.schedule.cached
        kept = kept_between(sequence) if keeps else {}
        for place, loop in enumerate(sequence):
            if loop.stores:
                break
            step = self._rank if loop.ranked else self._reduce
            step(loop, kept.get(place, ()))
        self._once_a_row()
        for loop in sequence:
            if loop.stores:
                self._map(loop)
        return "\n".join([*self._head(), *self.writer.lines]) + "\n"

    @property
    def team(self) -> Team:
        """The lanes that share a row."""
        if isinstance(self.schedule, Columnwise):
            return Team(self.schedule.strips, is_strips=True)
        return Team(self.schedule.lanes)

    def _head(self) -> list[str]:
        if isinstance(self.schedule, Columnwise):
            head = [
                "uint row = thread_position_in_grid.x;",
                "uint lane = thread_position_in_threadgroup.y;",
                "uint simd_lane = thread_position_in_threadgroup.x;",
            ]
        else:
            head = self._row_head(self.schedule.lanes)
        if self.writer.mentions("columns"):
            head.insert(0, f"constexpr uint columns = {self.columns};")
        return [line for line in head if self._is_read(line)]

    def _row_head(self, lanes: int) -> list[str]:
        head = [f"uint row = thread_position_in_grid.{'x' if lanes == 1 else 'y'};"]
        if lanes == 32:
            head.append("uint lane = thread_index_in_simdgroup;")
        elif lanes > 1:
            head.append("uint lane = thread_position_in_threadgroup.x;")
        if lanes > 32:
            head.append("uint simd_lane = thread_index_in_simdgroup;")
            head.append("uint simdgroup = simdgroup_index_in_threadgroup;")
        return head

    def _is_read(self, line: str) -> bool:
        name = line.split(" = ")[0].split()[-1]
        return self.writer.mentions(name)

    def _pointers(self) -> None:
        """Point at the row of every array that has one, so that only the column remains.

        A place that a reduction finds is not known yet: such an access is written in full.
        """
        accesses: list[tuple[str, Index]] = []
        for term in walk([s.value for s in self.stores]):
            if not isinstance(term, Load) or any(map(_waits, term.places)):
                continue
            for place in term.places:
                if place.number not in self.writer.bound and not _has_column(place.axes):
                    self.writer.prepare([place])
                    self.writer.define(place)
            accesses.append((term.array, term.offset))
        accesses += [(s.array, s.offset) for s in self.stores]
        for array, offset in accesses:
            if not _has_column(offset.axes):
                continue
            base = offset.without(a for a in offset.axes if a.name == REDUCED_AXIS)
            if base.terms and not self._is_reached(array, base):
                name = self.writer.fresh(f"{array}_row")
                self.writer.line(f"// {array}: {self.types[array]}")
                self.writer.line(f"auto {name} = {array} + {self.writer.index(base)};")
                self.writer.pointers[array, base] = name

    def _is_reached(self, array: str, base: Index) -> bool:
        """Say whether a pointer stands at a place of a row, or before it."""
        pointers = (known for name, known in self.writer.pointers if name == array)
        apart = [base.minus(known).constant for known in pointers]
        return any(steps is not None and steps >= 0 for steps in apart)

    def _walk(self, axis: Axis) -> Walk:
        columns = "columns" if axis.extent == self.columns else str(axis.extent)
        return walk_of(axis, columns, self.schedule)

    def _reduce(self, loop: Loop, kept: Sequence[Term]) -> None:
        writer = self.writer
        writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)
        self._declare_slots(kept, walk_)
        kahan = isinstance(self.schedule, Rowwise) and self.schedule.kahan
        names = {r: declare(writer, r, kahan=kahan) for r in loop.reduced}
        online = {pair: declare_online(writer, pair, self.stores) for pair in loop.online}

        span_ = Span(loop.axis, walk_.width)

        def body(inner: Writer) -> list[Run]:
            self._use_slots(inner, {t.number for t in kept})
            runs = span_.bind(inner, loop.roots, ())
            inner.prepare(loop.roots)
            for reduced, name in names.items():
                if reduced in positions:
                    positions[reduced].look(inner)
                elif kahan and is_compensated(reduced):
                    compensate(inner, reduced, name)
                else:
                    update(inner, reduced, name)
            for pair, pair_names in online.items():
                if pair in peaks:
                    look_online(inner, peaks[pair], pair_names)
                else:
                    update_online(inner, pair, pair_names)
            return runs

        positions: dict[Reduced, RunPosition] = {}
        peaks: dict[Pair, RunPeak] = {}

        def run_by_run(outer: Writer) -> list[Run]:
            """Look for the largest of each run first: what hangs on it is rare then."""
            for reduced in filter(is_position, names):
                positions[reduced] = RunPosition.declare(outer, reduced, names[reduced], span_)
            for pair, found in online.items():
                peaks[pair] = RunPeak.declare(outer, pair[0].body, "raised", found.peak, span_)
            surround(outer, walk_.per_neighbour, body)
            for position in positions.values():
                position.settle(outer, walk_.per_neighbour)
            for pair, pair_names in online.items():
                raise_online(outer, pair, pair_names, peaks[pair], walk_.per_neighbour)
            return []

        if walk_.width > 1 and (online or any(map(is_position, names))):
            surround(writer, walk_.per_run, run_by_run)
        else:
            surround(writer, walk_.around, body)
        for reduced, name in names.items():
            finish(writer, reduced, name, self.team)
        for pair, pair_names in online.items():
            finish_online(writer, pair, pair_names, self.team)

    def _rank(self, loop: Loop, kept: Sequence[Term]) -> None:
        """Find the ranks of a row one after the other, its keys kept where values are."""
        writer = self.writer
        writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)
        self._declare_slots(kept, walk_)

        def named(inner: Writer) -> list[Run]:
            self._use_slots(inner, {t.number for t in kept})
            runs = Span(loop.axis, walk_.width).bind(inner, loop.roots, ())
            inner.prepare(loop.roots)
            return runs

        ranking = Ranking(writer, loop.ranked, self.team)
        if isinstance(self.schedule, Rowwise) and self.schedule.cached:
            ranking.keep(walk_, named)
        with ranking.each_rank():
            surround(writer, walk_.around, lambda inner: ranking.consider(inner, walk_, named))
        ranking.bind()

    def _declare_slots(self, kept: Sequence[Term], walk_: Walk) -> None:
        if walk_.is_straight:
            self.writer.wanted |= {term.number for term in kept}
            return
        for term in kept:
            plural = f"{term.name}s" if walk_.slot else term.name
            name = self.writer.fresh(plural)
            size = f"[{walk_.elements}]" if walk_.slot else ""
            self.writer.line(f"{MSL_TYPE[term.dtype]} {name}{size};")
            self.slots[term.number] = (name, walk_.slot)

    def _use_slots(self, inner: Writer, written: set[int]) -> None:
        """Bind what earlier loops kept, and say where this one keeps its own."""
        for number, (array, slot) in self.slots.items():
            if number in written:
                inner.slots[number] = f"{array}{slot}"
            else:
                inner.bound[number] = f"{array}{slot}"

    def _once_a_row(self) -> None:
        single = [s for s in self.stores if column_of(s) is None]
        if not single:
            return
        shared = [s.value for s in self.stores if s not in single]
        self.writer.prepare(shared, [a for v in shared for a in v.axes if a.name == REDUCED_AXIS])

        def body(inner: Writer) -> list[Run]:
            inner.prepare([s.value for s in single])
            for store in single:
                inner.store(store)
            return []

        guard = () if self.team.lanes == 1 else (Block("if (lane == 0)"),)
        surround(self.writer, guard, body)

    def _map(self, loop: Loop) -> None:
        self.writer.prepare(loop.roots, (loop.axis,))
        walk_ = self._walk(loop.axis)

        def body(inner: Writer) -> list[Run]:
            self._use_slots(inner, set())
            runs = Span(loop.axis, walk_.width).bind(inner, loop.roots, loop.stores)
            inner.prepare(loop.roots)
            for store in loop.stores:
                inner.store(store)
            return runs

        surround(self.writer, walk_.around, body)


def _waits(term: Term) -> bool:
    return any(isinstance(t, Reduced | Ranked) for t in walk([term]))


def _has_column(axes: Iterable[Axis]) -> bool:
    return any(axis.name == REDUCED_AXIS for axis in axes)
