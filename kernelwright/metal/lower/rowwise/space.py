"""Which schedules rows have on a device, the best guess first."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.ir.region import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.component import longest_part, row_parts
from kernelwright.metal.kernel_ir.expression import Load, Store, walk
from kernelwright.metal.lower.emit.accumulator import is_compensated, joins_in_part, online_pairs
from kernelwright.metal.lower.emit.width import legal_widths, preferred_width
from kernelwright.metal.lower.pointwise.space import elementwise_schedules
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import (
    MANY_THREADS,
    MAXIMUM_KEPT,
    REGISTERS_OF_A_CORE,
    SHORT_ROW,
    WORKING_REGISTERS,
)
from kernelwright.metal.lower.rowwise.column_space import (
    column_split_schedules,
    columnwise_schedules,
    kept_column_schedules,
    runs_of_results,
)
from kernelwright.metal.lower.rowwise.footprint import row_footprint
from kernelwright.metal.lower.rowwise.kernel import is_apart
from kernelwright.metal.lower.rowwise.passes import Loop, column_of, loops
from kernelwright.metal.lower.rowwise.split_space import FEW_ROWS, split_schedules
from kernelwright.metal.lower.rowwise.stores import is_strided, row_count, row_stores
from kernelwright.metal.lower.rowwise.tiled_space import LONGEST_TILED, tiled_schedules
from kernelwright.metal.lower.staged.space import staged_schedules
from kernelwright.metal.lower.term.reduction import are_read_often, is_short
from kernelwright.metal.schedule import Rowwise, Schedule

_TRIED_BEFORE_STAGES = 6
_UNEVEN_RUN = 4
"""Neighbours from which on whole runs of an uneven row are worth its edges."""
_ROWS_TOGETHER = {1: (64, 256), 4: (32, 64), 8: (16, 32), 16: (8, 16), 32: (4, 1, 8)}
"""Rows that share a threadgroup, by the lanes of each; longer teams have one to themselves."""


def rowwise_schedules(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    """Return every schedule of reduced rows, in the order in which to try them.

    Rows of one graph may be read by lanes, columns, tiles or stages, or be written out.
    """
    if parts := row_parts(graph):
        return iter(_of_all_parts(parts, device))
    stores = row_stores(graph, Signature.of(graph), row_count(graph))
    sequence = loops(stores, online=False)
    columns = max(loop.axis.extent for loop in sequence)
    has_pairs = bool(online_pairs([r for loop in sequence for r in loop.reduced]))
    strided = is_strided(stores)
    found = [
        schedule
        for schedule in _combinations(columns, device.threads_per_threadgroup, legal_widths(graph))
        if _is_legal(schedule, sequence, stores, device) and (has_pairs or not schedule.online)
    ]
    run, rows = preferred_width(graph, device), row_count(graph)
    if _are_of_pairs(sequence, stores):
        found.sort(key=lambda s: _strangeness_of_pairs(s, rows))
    else:
        found.sort(key=lambda s: _strangeness(s, columns, run, strided=strided))
    if any(is_compensated(r) for loop in sequence for r in loop.reduced):
        # Slower, and worth a trial only where plain sums are not accurate enough: the last.
        found.append(replace(found[0], kahan=True, online=False))
    spelled = [
        *_spelled_out(graph, device),
        *tiled_schedules(graph, columns, device, strided=strided),
    ]
    staged = staged_schedules(graph, columns, device, strided=strided)
    is_idle = row_count(graph) <= FEW_ROWS
    if not strided:
        first = [*split_schedules(graph, columns), *(staged if is_idle else ())]
        later = [*found[:_TRIED_BEFORE_STAGES], *staged, *found[_TRIED_BEFORE_STAGES:]]
        return iter([*spelled, *first, *(found if is_idle else later)])
    vectors = runs_of_results(graph, device)
    columnwise = list(columnwise_schedules(stores, columns, vectors, device, has_pairs=has_pairs))
    # Too few threads to hide the memory's latency want more threadgroups a column.
    splits = column_split_schedules(graph, columns, vectors)
    is_few = row_count(graph) * columnwise[0].strips < MANY_THREADS if columnwise else True
    order = (splits, staged, columnwise) if is_few else (columnwise, splits, staged)
    kept = kept_column_schedules(graph, stores, columns, found, device)
    return iter([*spelled, *kept, *order[0], *order[1], *order[2], *found])


def _of_all_parts(parts: Sequence[Region], device: DeviceInfo) -> list[Rowwise]:
    """Return the schedules of the longest part that serve all, in its order.

    Those come first whose threadgroups have rows of one part alone.
    """
    spaces = [list(rowwise_schedules(part.bare(), device)) for part in parts]
    rows = [row_count(part.bare()) for part in parts]
    shared = [
        schedule
        for schedule in spaces[longest_part(parts)]
        if isinstance(schedule, Rowwise)
        and all(schedule in space for space in spaces)
        and is_apart(parts, schedule)
    ]
    return sorted(shared, key=lambda schedule: any(n % schedule.rows for n in rows[:-1]))


def _spelled_out(graph: Graph, device: DeviceInfo) -> list[Schedule]:
    """Return schedules by which a thread joins the few elements that each of its results needs."""
    reductions = [n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION]
    if not reductions or not all(is_short(graph, node) for node in reductions):
        return []
    # Neighbouring threads are to read neighbours, and no two of them the same elements.
    least = min(graph.types[node.outputs[0]].size for node in reductions)
    sources = [(n, len(graph.types[n.inputs[0]].shape) - 1) for n in reductions]
    joins_neighbours = any(last in reduced_axes(Call.of(graph, n)) for n, last in sources)
    if any(t.size > least for t in graph.output_types):
        return []
    if joins_neighbours and not are_read_often(graph, least):
        return []
    return list(elementwise_schedules(graph, device))


def _combinations(columns: int, threads: int, widths: tuple[int, ...]) -> Iterator[Rowwise]:
    vectors = [v for v in widths if columns % v == 0]
    # Runs that do not divide a long row leave a few elements of it to single lanes.
    uneven = [v for v in widths if columns % v and v >= _UNEVEN_RUN and columns > LONGEST_TILED]
    for lanes in (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        if lanes > threads:
            continue
        for rows in _ROWS_TOGETHER.get(lanes, (1,)):
            further = uneven if lanes >= 32 else []
            for vector in [1] if lanes == 1 else [*vectors, *further]:
                plain = Rowwise(lanes, rows, vector, cached=False)
                yield from (plain, replace(plain, cached=True), replace(plain, online=True))


def _is_legal(
    schedule: Rowwise, sequence: tuple[Loop, ...], stores: list[Store], device: DeviceInfo
) -> bool:
    found = [r for loop in sequence for r in loop.reduced]
    columns = max(loop.axis.extent for loop in sequence)
    # Ranks are found one after the other: simdgroups would wait for each other at every one.
    if schedule.lanes > 32 and any(loop.ranked for loop in sequence):
        return False
    if 1 < schedule.lanes < 32 and not _fits_part(schedule, sequence):
        return False
    if schedule.lanes > 32 and schedule.lanes * schedule.vector >= 2 * columns:
        return False
    if schedule.lanes * schedule.vector > max(columns, 32):
        return False
    # Simdgroup functions take no 64-bit integers.
    if schedule.lanes > 1 and any(r.body.dtype.itemsize > 4 for r in found):
        return False
    taken = row_footprint(stores, schedule)
    # Where nothing is read twice there is nothing to keep.
    if (
        schedule.cached
        and not WORKING_REGISTERS < taken.registers <= MAXIMUM_KEPT + WORKING_REGISTERS
    ):
        return False
    # What a core's registers do not hold is spilled: 65 instead of 38 us for rows of 50,257 halves.
    if schedule.cached and schedule.lanes * taken.registers > REGISTERS_OF_A_CORE:
        return False
    return taken.threadgroup_bytes <= device.threadgroup_bytes


def _fits_part(schedule: Rowwise, sequence: tuple[Loop, ...]) -> bool:
    """Say whether some lanes of a simdgroup take a row at a single read each."""
    found = [r for loop in sequence for r in (*loop.reduced, *sum(loop.online, ()))]
    columns = max(loop.axis.extent for loop in sequence)
    is_one_read = schedule.lanes * schedule.vector == columns and schedule.vector > 1
    is_ranked = any(loop.ranked for loop in sequence)
    return is_one_read and not is_ranked and all(map(joins_in_part, found))


def _strangeness(schedule: Rowwise, columns: int, run: int, *, strided: bool) -> tuple[float, ...]:
    """Order schedules by their distance from what a Metal engineer would write first."""
    wanted = min(32, max(columns // run, 1)) if columns <= 512 else min(max(columns // 8, 64), 1024)
    if strided or columns <= SHORT_ROW:
        wanted = 1
    is_long = columns % run == 0 or columns > LONGEST_TILED
    return _apart(schedule, wanted, run if is_long else 1)


def _are_of_pairs(sequence: Sequence[Loop], stores: Sequence[Store]) -> bool:
    """Say whether what rows join is read either for all rows or for all columns alike."""
    loads = [t for t in walk([s.value for s in stores]) if isinstance(t, Load)]
    columns = {loop.axis for loop in sequence}
    is_of_row = any(load.axes and columns.isdisjoint(load.axes) for load in loads)
    is_of_both = any(len(load.axes) > 1 and columns & load.axes for load in loads)
    return is_of_row and not is_of_both and all(column_of(s) is None for s in stores)


def _strangeness_of_pairs(schedule: Rowwise, rows: int) -> tuple[float, ...]:
    """Order schedules of rows whose elements are made of what other rows read too.

    A thread that has a row to itself joins nothing with others, and all lanes read the same.
    """
    return _apart(schedule, max(MANY_THREADS / rows, 1), 1)


def _apart(schedule: Rowwise, wanted: float, run: int) -> tuple[float, ...]:
    """Return how far a schedule is from so many lanes and neighbours."""
    lanes = abs(math.log2(schedule.lanes / wanted))
    vector = abs(math.log2(schedule.vector / run))
    kept = 0.0 if schedule.cached else 0.5 if schedule.online else 1.0
    # Rows a threadgroup matter least, so that other choices are tried before they are.
    rows = 0.0 if schedule.rows == _ROWS_TOGETHER.get(schedule.lanes, (1,))[0] else 2.0
    if schedule.lanes == 1:
        kept = 0.0 if schedule.online or not schedule.cached else 0.5
    return (0.6 * lanes + vector / 2 + kept + rows, lanes, vector, kept, rows)
