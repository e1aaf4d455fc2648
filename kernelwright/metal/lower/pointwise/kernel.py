"""Elementwise chains with broadcasting and views: every thread computes a few elements."""

import itertools
from collections.abc import Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Dimensions, Kernel
from kernelwright.metal.kernel_ir.expression import (
    Expr,
    Load,
    Store,
    Switch,
    walk,
)
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.layout import Block, Line, span, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.pointwise.element import (
    Piece,
    Segment,
    domain,
    element_stores,
    folded,
    offsets_of,
    pieces,
    split_at_choices,
)
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Elementwise

_GRID = "zyx"
_LEAST_RUNS = 4
"""Runs of an uneven row from which on whole ones are read as such."""
_MOST_SEGMENTS = 8
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
        written = [o for s in stores for o in offsets_of(s, writer.bound)]
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
