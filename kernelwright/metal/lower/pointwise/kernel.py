"""Elementwise chains with broadcasting and views: every thread computes a few elements."""

import itertools
import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call
from kernelwright.metal.kernel import Dimensions, Kernel
from kernelwright.metal.kernel_ir.expression import (
    Expr,
    IndexValue,
    Load,
    ReduceExpr,
    Store,
    Switch,
    walk,
)
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, moved, unflatten
from kernelwright.metal.lower.emit.layout import Block, Line, span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.build import Builder
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Elementwise

_AXIS_NAMES = (("index",), ("row", "column"), ("plane", "row", "column"))
_GRID = "zyx"
_LEAST_RUNS = 4
"""Runs of an uneven row from which on whole ones are read as such."""
_MOST_SEGMENTS = 8
_MOST_SHARING = 64
"""Rows of a plane up to which what they all read is worth holding for several of them."""
_DEEPEST = 64
"""The third side of a block on CUDA ends here (CUDA C++ Programming Guide, table of limits)."""


def lower_elementwise(
    graph: Graph, signature: Signature, outputs: Sequence[int], schedule: Elementwise
) -> Kernel:
    """Write one kernel for the outputs at some positions in `graph.outputs`, all of one size.

    Raises:
        UnsupportedError: the graph holds what no elementwise kernel computes.
    """
    parts = split_at_choices(graph, signature, pieces(graph, outputs))
    axes = domain(graph, signature, parts)
    stores = element_stores(graph, signature, parts, axes, schedule.rows)
    axes = folded(axes, schedule.rows)
    writer = Writer(signature.scalars, taken=signature.taken)
    grid = _grid(axes, schedule)
    threadgroup = threadgroup_of(grid, schedule)
    if not is_even(axes, schedule):
        raise UnsupportedError(
            f"{schedule.unroll} runs of {schedule.vector} for each of {threadgroup[0]} threads do "
            f"not divide {axes[-1].extent} elements; use unroll=1."
        )
    if schedule.unroll > 1:
        _write_unrolled(writer, axes, stores, schedule, int(threadgroup[0]))
    else:
        _write_outer(writer, axes)
        segments = _segments(stores, axes[-1], schedule) if schedule.rows == 1 else ()
        if segments:
            _write_segments(writer, graph, signature, parts, axes, segments, schedule.vector)
        else:
            write_inner(writer, axes, stores, schedule.vector)
    source = "\n".join(writer.lines) + "\n"
    used = {t.array for t in walk([s.value for s in stores]) if isinstance(t, Load)}
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for s in stores)),
        source=source,
        header=header_for(source),
        grid=grid,
        threadgroup=threadgroup,
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements along the innermost axis for all of which every choice has the same arm."""

    first: int
    stop: int

    @property
    def extent(self) -> int:
        """Number of elements."""
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an output that one store writes, beginning at `start` along `axis`."""

    position: int
    value: ValueId
    shape: tuple[int, ...]
    """The part's own shape."""
    whole: tuple[int, ...]
    """The output's shape, or that of the same elements before a reshape."""
    axis: int = 0
    start: int = 0
    is_window: bool = False
    """True where `value` is the whole output, read from `start` on."""


def pieces(graph: Graph, outputs: Sequence[int]) -> tuple[Piece, ...]:
    """Return what the stores of a kernel write.

    Outputs that concatenate equal parts are written part by part, so that each thread computes
    one element of every part and shares what they have in common.
    """
    parts = tuple(p for position in outputs for p in _parts(graph, position))
    if len({p.shape for p in parts}) == 1:
        return parts
    return tuple(_whole(graph, position) for position in outputs)


def split_at_choices(
    graph: Graph, signature: Signature, parts: tuple[Piece, ...]
) -> tuple[Piece, ...]:
    """Return the parts cut where a choice changes its arm, if that makes equal parts."""
    shape = parts[0].shape
    if any(p.shape != shape or p.whole != shape for p in parts):
        return parts
    axes = tuple(Axis(f"axis_{i}", n) for i, n in enumerate(shape))
    for term in walk(s.value for s in element_stores(graph, signature, parts, axes)):
        if not isinstance(term, Switch):
            continue
        for number, axis in enumerate(axes):
            step = term.edges[0]
            stops = tuple(range(step, axis.extent, step))
            if term.place == Index.of(axis) and term.edges == stops and axis.extent % step == 0:
                return tuple(w for p in parts for w in _windows(p, number, step))
    return parts


def _windows(piece: Piece, axis: int, step: int) -> tuple[Piece, ...]:
    shape = tuple(step if i == axis else n for i, n in enumerate(piece.shape))
    starts = range(0, piece.shape[axis], step)
    return tuple(
        replace(piece, shape=shape, axis=axis, start=start, is_window=True) for start in starts
    )


def _whole(graph: Graph, position: int) -> Piece:
    value = graph.outputs[position]
    shape = graph.types[value].shape
    return Piece(position, value, shape, shape)


def _producer(graph: Graph, value: ValueId) -> Node | None:
    index = graph.producer_of.get(value)
    return None if index is None else graph.nodes[index]


def _parts(graph: Graph, position: int) -> list[Piece]:
    node = _producer(graph, graph.outputs[position])
    while node is not None and node.op == "reshape":
        node = _producer(graph, node.inputs[0])
    if node is None or node.op != "concatenate":
        return [_whole(graph, position)]
    shape = graph.types[node.outputs[0]].shape
    axis, start = Call.of(graph, node).integer("axis"), 0
    parts: list[Piece] = []
    for part in node.inputs:
        parts.append(Piece(position, part, graph.types[part].shape, shape, axis, start))
        start += graph.types[part].shape[axis]
    return parts


def domain(graph: Graph, signature: Signature, parts: Sequence[Piece]) -> tuple[Axis, ...]:
    """Return the fewest axes over which every access is written without division, outermost first.

    Neighbouring axes become one where all accesses step through them as through one axis.
    """
    extents = _merged(graph, signature, parts)
    if len(extents) > 3:
        extents = [math.prod(extents[:-2]), *extents[-2:]]
    extents = extents or [1]
    return tuple(Axis(*pair) for pair in zip(_AXIS_NAMES[len(extents) - 1], extents, strict=True))


def merged_extents(graph: Graph, signature: Signature) -> list[int]:
    """Return the extents of the fewest axes over which every access of all outputs is a sum.

    Raises:
        UnsupportedError: an element needs a whole row, or the outputs differ in size.
    """
    if len({t.size for t in graph.output_types}) > 1:
        raise UnsupportedError("outputs of several sizes share no threads; use elementwise.")
    parts = [_whole(graph, position) for position in range(len(graph.outputs))]
    return _merged(graph, signature, parts) or [1]


def _merged(graph: Graph, signature: Signature, parts: Sequence[Piece]) -> list[int]:
    shape = parts[0].shape
    axes = tuple(Axis(f"axis_{i}", n) for i, n in enumerate(shape) if n > 1)
    stores = element_stores(graph, signature, parts, axes)
    offsets = [nested for s in stores for o in _offsets(s) for nested in o.indices()]
    extents: list[int] = []
    for position, axis in enumerate(axes):
        if extents and all(_step_as_one(o, axes[position - 1], axis) for o in offsets):
            extents[-1] *= axis.extent
        else:
            extents.append(axis.extent)
    return extents


def sharing_rows(
    graph: Graph,
    signature: Signature,
    parts: Sequence[Piece],
    axes: tuple[Axis, ...],
    counts: Sequence[int],
) -> list[int]:
    """Return how many rows read less together than alone, as windows do that overlap.

    What a row reads wherever it stands does not count, caches have it, unless it is most of what
    is read and other for each plane.
    """
    whole = axes[-2].extent if len(axes) > 1 else 1
    if _are_pairs(graph, signature, parts, axes) or _reads_for_all_rows(
        graph, signature, parts, axes
    ):
        return [rows for rows in counts if whole % rows == 0]
    # Rows that are all of an axis leave none behind by which to tell what hangs on it.
    possible = [rows for rows in counts if whole % rows == 0 and whole > rows]

    def read(together: int) -> set[tuple[str, Index]]:
        stores = element_stores(graph, signature, parts, axes, together)
        loads = (t for t in walk([s.value for s in stores]) if isinstance(t, Load))
        name = axes[-2].name
        return {(t.array, t.offset) for t in loads if any(a.name == name for a in t.axes)}

    alone = len(read(1)) if possible else 0
    return [rows for rows in possible if len(read(rows)) < rows * alone]


def _reads_for_all_rows(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether most runs that a thread reads are those of every row of its plane."""
    if len(axes) < 3 or axes[-2].extent > _MOST_SHARING:
        return False
    plane, row, inner = axes
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    loads = {(t.array, t.offset) for t in walk(values) if isinstance(t, Load)}
    runs = [offset.axes for _, offset in loads if inner in offset.axes]
    shared = [found for found in runs if row not in found and plane in found]
    return 2 * len(shared) > len(runs)


def _are_pairs(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether an element is made of what its row and what its column have, each many times.

    Caches hold all of that; reading it from there is then most of what a thread does.
    """
    if len(axes) < 2:
        return False
    row, inner = axes[-2:]
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    reads = [t.offset.axes for t in walk(values) if isinstance(t, Load)]
    are_apart = not any(row in read and inner in read for read in reads)
    return are_apart and all(any(axis in read for read in reads) for axis in (row, inner))


def _offsets(store: Store, known: Container[int] = ()) -> list[Index]:
    """Return where a store and its terms stand; what a variable holds stands nowhere any more."""
    offsets = [store.offset]
    for term in walk([store.value], known):
        if term.number in known:
            continue
        match term:
            case Load():
                offsets.append(term.offset)
            case IndexValue():
                offsets.append(term.index)
            case Switch():
                offsets.append(term.place)
    return offsets


def _step_as_one(offset: Index, outer: Axis, inner: Axis) -> bool:
    factors = dict(offset.terms)
    return factors.get(outer, 0) == factors.get(inner, 0) * inner.extent


def folded(axes: tuple[Axis, ...], rows: int) -> tuple[Axis, ...]:
    """Return axes of which the second innermost counts so many rows as one.

    Raises:
        UnsupportedError: there is no such axis, or they do not divide it.
    """
    if rows == 1:
        return axes
    if len(axes) < 2 or axes[-2].extent % rows:
        found = axes[-2].extent if len(axes) > 1 else 1
        raise UnsupportedError(f"{rows} rows a thread do not divide {found} rows; use rows=1.")
    return (*axes[:-2], Axis(axes[-2].name, axes[-2].extent // rows), axes[-1])


def element_stores(
    graph: Graph,
    signature: Signature,
    parts: Sequence[Piece],
    axes: tuple[Axis, ...],
    rows: int = 1,
    segment: Segment | None = None,
) -> list[Store]:
    """Return what the stores of some parts write, over axes that count a part's elements.

    With several rows, over the folded axes: each part once for every row. With a segment, only
    what lies in it; its places count from its beginning.

    Raises:
        UnsupportedError: an element needs a whole row, or the rows are not divided.
    """
    builder = Builder(graph, signature.arrays, spells_out=True)
    stepped = folded(axes, rows)
    places = [Index.of(a) for a in stepped]
    if segment is not None:
        places[-1] = Index.of(Axis(stepped[-1].name, segment.extent)) + segment.first
    stores = []
    for row, piece in product(range(rows), parts):
        if rows > 1:
            places[-2] = Index.of(stepped[-2]) * rows + row
        place = flatten(places, [a.extent for a in axes])
        name, type_ = signature.outputs[piece.position]
        coordinates = unflatten(place, piece.shape)
        outer = moved(coordinates, piece.axis, piece.start)
        value = builder.element(piece.value, outer if piece.is_window else coordinates)
        stores.append(Store(name, flatten(outer, piece.whole), value, type_.dtype))
    for term in walk([s.value for s in stores]):
        if isinstance(term, ReduceExpr):
            raise UnsupportedError(f"a {term.reducer} is no elementwise operation.")
    return stores


def _segments(stores: Sequence[Store], inner: Axis, schedule: Elementwise) -> tuple[Segment, ...]:
    """Return the parts of the innermost axis between the edges of choices, if runs divide them.

    A thread then chooses once for its run, and reads the run of the arm as a whole.
    """
    vector, cuts = schedule.vector, set[int]()
    for term in walk([s.value for s in stores]):
        if not isinstance(term, Switch) or inner not in term.place.axes:
            continue
        rest = term.place.minus(Index.of(inner)).constant
        if rest is None:
            return ()
        cuts.update(edge - rest for edge in term.edges)
    if vector == 1 or inner.extent % vector:
        return ()
    # A run across an edge stands in a short segment of its own, where each element chooses.
    cuts = {end for cut in cuts for end in (cut // vector * vector, -(-cut // vector) * vector)}
    cuts = {cut for cut in cuts if 0 < cut < inner.extent}
    if not 0 < len(cuts) < _MOST_SEGMENTS:
        return ()
    edges = [0, *sorted(cuts), inner.extent]
    return tuple(Segment(*pair) for pair in itertools.pairwise(edges))


def _write_segments(
    writer: Writer,
    graph: Graph,
    signature: Signature,
    parts: Sequence[Piece],
    axes: tuple[Axis, ...],
    segments: Sequence[Segment],
    vector: int,
) -> None:
    """Write a branch for each segment; in it, places count from the segment's beginning."""
    writer.line(f"uint first = thread_position_in_grid.x * {vector};")
    for segment in segments:
        head = f"if (first < {segment.stop})" if segment is not segments[-1] else ""
        inner = Axis(axes[-1].name, segment.extent)
        here = (*axes[:-1], inner)
        stores = element_stores(graph, signature, parts, axes, segment=segment)
        with writer.block(f"else {head}".rstrip() if segment.first else head):
            apart = f" - {segment.first}" if segment.first else ""
            writer.line(f"uint start = first{apart};")
            _write_run(writer, here, stores, vector)
    writer.join_branches()


def write_inner(writer: Writer, axes: Sequence[Axis], stores: Sequence[Store], vector: int) -> None:
    """Write what each thread does at its place on the outer axes."""
    inner = axes[-1]
    if vector == 1:
        writer.line(f"uint {inner.name} = thread_position_in_grid.x;")
        _write_element(writer, axes, stores)
        return
    writer.line(f"uint start = thread_position_in_grid.x * {vector};")
    if inner.extent % vector == 0:
        _write_run(writer, axes, stores, vector)
        return
    # The last thread of each row has fewer elements.
    values = [s.value for s in stores]
    if inner.extent < _LEAST_RUNS * vector or not _has_runs(writer, inner, values, vector):
        writer.prepare(values, (inner,))
        head = f"uint {inner.name} = start; {inner.name} < metal::min(start + {vector}, "
        with writer.block(f"for ({head}{inner.extent}u); ++{inner.name})"):
            _write_element(writer, axes, stores)
        return
    with writer.block(f"if (start <= {inner.extent - vector})"):
        _write_run(writer, axes, stores, vector)
    with writer.block("else"):
        writer.prepare(values, (inner,))
        head = f"uint {inner.name} = start; {inner.name} < {inner.extent}; ++{inner.name}"
        with writer.block(f"for ({head})"):
            _write_element(writer, axes, stores)
    writer.join_branches()


def _has_runs(writer: Writer, inner: Axis, values: Sequence[Expr], vector: int) -> bool:
    """Say whether anything is read in runs."""
    tried = writer.branch()
    tried.prepare(values, (inner,))
    return bool(Span(inner, vector).bind(tried, values, ()))


def _write_run(writer: Writer, axes: Sequence[Axis], stores: Sequence[Store], vector: int) -> None:
    """Write the elements from `start` on, reading and writing whole runs."""
    inner = axes[-1]
    writer.prepare([s.value for s in stores], (inner,))

    def body(one: Writer) -> list[Run]:
        runs = Span(inner, vector).bind(one, [s.value for s in stores], stores)
        _write_element(one, axes, stores)
        return runs

    surround(writer, span(inner.name, vector), body)


def _write_outer(writer: Writer, axes: Sequence[Axis]) -> None:
    for letter, axis in zip(_GRID[3 - len(axes) :], axes[:-1], strict=False):
        writer.line(f"uint {axis.name} = thread_position_in_grid.{letter};")


def _write_unrolled(
    writer: Writer,
    axes: Sequence[Axis],
    stores: Sequence[Store],
    schedule: Elementwise,
    threads: int,
) -> None:
    """Write several runs a thread, `threads` runs apart: all are read before any is used."""
    _write_outer(writer, axes)
    inner, vector, count = axes[-1], schedule.vector, schedule.unroll
    values = [s.value for s in stores]
    group = f"threadgroup_position_in_grid.x * {threads * count}"
    writer.line(f"uint first = ({group} + thread_position_in_threadgroup.x) * {vector};")
    writer.prepare(values, (inner,))
    body = writer.branch()
    runs = Span(inner, vector, count).bind(body, values, stores)
    reads = [run for run in runs if run.declared]
    for run in reads:
        writer.line(run.declared)
    head = f"for (uint j = 0; j < {count}; ++j)"
    start = f"uint start = first + j * {threads * vector};"
    with writer.block(head):
        writer.line(start)
        for run in reads:
            writer.line(run.before)

    def element(one: Writer) -> list[Run]:
        one.runs, one.bound = body.runs, body.bound
        one.taken = body.taken
        _write_element(one, axes, stores)
        return [run for run in runs if not run.declared]

    around = (Block(head), Line(start, "start"), *span(inner.name, vector))
    surround(writer, around, element)


def _write_element(writer: Writer, axes: Sequence[Axis], stores: Sequence[Store]) -> None:
    if len(axes) > 1:
        written = [o for s in stores for o in _offsets(s, writer.bound)]
        in_runs = {offset for _, offset in writer.runs}
        writer.share_offsets([o for o in written if o not in in_runs], "place")
    writer.prepare([s.value for s in stores])
    for store in stores:
        writer.store(store)


def _grid(axes: Sequence[Axis], schedule: Elementwise) -> Dimensions:
    inner = -(-axes[-1].extent // (schedule.vector * schedule.unroll))
    outer = [a.extent for a in reversed(axes[:-1])]
    x, y, z = (inner, *outer, 1, 1)[:3]
    return x, y, z


def threadgroup_of(grid: Dimensions, schedule: Elementwise) -> Dimensions:
    """Return a threadgroup that fits the innermost axis; the device trims it at the edges.

    What it trims are lanes that idle. Sides are powers of two all the same, which an H200 runs
    faster, up to where it would idle more than half: those reach into the next axis.
    """
    width, height, depth = (int(extent) for extent in grid)
    if height == depth == 1:
        return schedule.threads, 1, 1
    x = min(schedule.threads, _power_of_two(width))
    most = schedule.threads // x
    if 2 * height > most:
        return x, most, 1
    y = _power_of_two(height)
    return x, y, min(most // y, _power_of_two(depth), _DEEPEST)


def is_even(axes: Sequence[Axis], schedule: Elementwise) -> bool:
    """Say whether whole threadgroups take all of the innermost axis, where threads take several."""
    if schedule.unroll == 1:
        return True
    threads = int(threadgroup_of(_grid(axes, schedule), schedule)[0])
    taken = schedule.vector * schedule.unroll * threads
    return schedule.vector > 1 and axes[-1].extent % taken == 0


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
