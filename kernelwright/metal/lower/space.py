"""Which schedules a graph has on a device, the best guess first, and what each takes on chip."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.classify import Pattern, classify, served
from kernelwright.metal.family.concatenated_outputs import stacked_axis
from kernelwright.metal.family.contraction import FEW_TOKENS, dense_sizes
from kernelwright.metal.kernel_ir.expression import Load, ReduceExpr, Reducer, Store, always, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.attention.space import attention_layout, attention_schedules
from kernelwright.metal.lower.banded import banded_footprint, banded_schedules
from kernelwright.metal.lower.emit.accumulator import is_compensated, joins_in_part, online_pairs
from kernelwright.metal.lower.emit.run import WIDTHS, preferred_run
from kernelwright.metal.lower.emit.running import is_wide, scanned
from kernelwright.metal.lower.gemm.space import matmul_schedules, matmul_tiles
from kernelwright.metal.lower.gemv.space import dense_schedules, dense_tiling
from kernelwright.metal.lower.pointwise.kernel import (
    Piece,
    domain,
    element_stores,
    is_even,
    pieces,
    sharing_rows,
    split_at_choices,
)
from kernelwright.metal.lower.pointwise.stacked import Layer, stacked_layers
from kernelwright.metal.lower.prefill.kernel import prefill_tiles
from kernelwright.metal.lower.prefill.space import prefill_schedules
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.quantized.space import matvec_registers, matvec_schedules
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.rowwise.passes import Loop, loops, per_lane, register_count
from kernelwright.metal.lower.rowwise.split import lower_split
from kernelwright.metal.lower.rowwise.stores import is_strided, row_count, row_stores
from kernelwright.metal.lower.rowwise.tiled import Tiles, tile_rows
from kernelwright.metal.lower.scan.columns import column_scan_shape, column_scan_stores
from kernelwright.metal.lower.scan.rows import scan_shape, scan_stores
from kernelwright.metal.lower.staged import lower_staged, part_counts
from kernelwright.metal.lower.term.nesting import refuses_deep_nesting
from kernelwright.metal.lower.term.reduction import is_short
from kernelwright.metal.lower.term.width import has_wide_arrays, writes_wide_offsets
from kernelwright.metal.lower.transposed import transposed_bytes, transposed_schedules
from kernelwright.metal.schedule import (
    Attention,
    Banded,
    ColumnScan,
    ColumnSplit,
    Columnwise,
    Dense,
    Elementwise,
    Matmul,
    Matvec,
    Prefill,
    Rowwise,
    Scan,
    Schedule,
    Split,
    Staged,
    Tiled,
    Transposed,
)

MAXIMUM_KEPT = 64
"""Registers that a lane's kept values may take; our choice, to keep many simdgroups resident."""
FEW_ROWS, LONG_ROW = 32, 1 << 15
"""Up to how many rows, and from which length on, a threadgroup a row leaves a GPU idle."""
_WORTH_STAGES, _ROWS_IN_STAGES = 1 << 20, 512
"""From how many elements on stages pay, and up to how many rows whose elements are neighbours."""
_LEAST_PART = 1024
"""Elements of a part that are worth a threadgroup."""
_TRIED_BEFORE_STAGES = 6
UNROLLS = (1, 2, 4)
"""Runs that a thread of an elementwise kernel may take."""
_ROWS = (4, 2, 8)
"""Rows that a thread computes together where neighbours read the same, as windows do."""
BYTES_IN_FLIGHT = 16
"""Bytes that a thread should have asked for before it waits; measured on an H200, where kernels
with fewer left bandwidth unused."""
_MANY = 1 << 18
"""Threads that keep the largest GPU's memory busy with one element each at a time."""
_FEWEST_RUNS = 32
"""Runs of results that keep a simdgroup's lanes busy."""
_MOST_TERMS = 256
"""That a thread adds up one after the other: where the terms are equal, as in a constant column,
their roundings do not average out, and a mean that is taken from them leaves nothing but those."""
_LONGEST_TILED, _FEWEST_TILED = 512, 1024
"""Elements up to which a row is held in threadgroup memory, and rows from which on it pays."""
_READ_OFTEN = 8
"""Results for each element read from which on a result is made of what caches hold, as of pairs."""
_UNEVEN_RUN = 4
"""Neighbours from which on whole runs of an uneven row are worth its edges."""
_FEW_KEPT = 64
_FEW_STEPS, _TRIED_KEPT = 16, 4
"""Elements of a column that a thread keeps best, and how many such schedules are tried early."""
_REGISTERS_OF_A_CORE = 1 << 16
"""32-bit registers for which a threadgroup's threads compete: CUDA C++ Programming Guide, compute
capability 9.0; Apple's cores have some 52 thousand."""
_SHORT_ROW = 16
"""Elements up to which one thread a row is tried first."""
_ROWS_TOGETHER = {1: (64, 256), 4: (32, 64), 8: (16, 32), 16: (8, 16), 32: (4, 1, 8)}
"""Rows that share a threadgroup, by the lanes of each; longer teams have one to themselves."""
_WORKING = 16
"""Registers for addresses and intermediate values, beside what is kept."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a kernel takes on chip: estimated registers a thread, threadgroup bytes."""

    registers: int
    threadgroup_bytes: int


@refuses_deep_nesting
def schedules(graph: Graph, device: DeviceInfo) -> tuple[Schedule, ...]:
    """Return every legal schedule of a graph, in the order in which to try them.

    Raises:
        UnsupportedError: no family computes the graph.
    """
    graph = served(graph)
    family = classify(graph)
    if family.pattern is Pattern.NONE:
        raise UnsupportedError(f"no family of kernels computes this: {family.reason}.")
    match family.pattern:
        case Pattern.ATTENTION:
            return (*prefill_schedules(graph, device), *attention_schedules(graph, device))
        case Pattern.DENSE if dense_sizes(graph).tokens <= FEW_TOKENS:
            return dense_schedules(graph, device)
        case Pattern.DENSE:
            return matmul_schedules(graph, device)
        case Pattern.MATVEC:
            return matvec_schedules(graph)
        case Pattern.SCAN if column_scan_shape(graph).columns > 1:
            return tuple(_column_scans(graph, device))
        case Pattern.SCAN:
            return tuple(_scans(graph, device))
        case Pattern.PLANE:
            return tuple(banded_schedules(graph, device))
        case Pattern.ROWWISE if has_wide_arrays(graph):
            return tuple(s for s in _rowwise(graph, device) if writes_wide_offsets(s))
        case Pattern.ROWWISE:
            return tuple(_rowwise(graph, device))
        case _ if has_wide_arrays(graph):
            return tuple(_elementwise(graph, device))
        case _:
            return (*transposed_schedules(graph, device), *_elementwise(graph, device))


@refuses_deep_nesting
def footprint(graph: Graph, schedule: Schedule) -> Footprint:
    """Estimate what a graph's kernel takes on chip under a schedule."""
    graph = served(graph)
    if isinstance(schedule, Elementwise):
        return Footprint(_WORKING + len(graph.nodes) // 4, 0)
    if isinstance(schedule, Dense):
        tiling = dense_tiling(graph, schedule)
        return Footprint(_WORKING + tiling.registers, tiling.threadgroup_bytes)
    if isinstance(schedule, Matmul):
        tiles = matmul_tiles(graph, schedule)
        return Footprint(_WORKING + tiles.registers, tiles.threadgroup_bytes)
    if isinstance(schedule, Prefill):
        _, prefill = prefill_tiles(graph, schedule)
        return Footprint(_WORKING + prefill.registers, prefill.threadgroup_bytes)
    if isinstance(schedule, Attention):
        layout = attention_layout(graph, schedule)
        return Footprint(_WORKING + layout.registers, layout.threadgroup_bytes)
    if isinstance(schedule, Matvec):
        return Footprint(_WORKING + matvec_registers(graph, schedule), 0)
    if isinstance(schedule, Scan):
        found = scanned(scan_stores(graph, Signature.of(graph), *scan_shape(graph)))
        shared = schedule.lanes // 32 if schedule.lanes > 32 else 0
        words = sum(2 if is_wide(scan) else 1 for scan in found)
        return Footprint(_WORKING + schedule.vector * words, 4 * shared * words)
    if isinstance(schedule, ColumnScan):
        found = scanned(column_scan_stores(graph, Signature.of(graph), schedule))
        words = schedule.vector * sum(2 if is_wide(scan) else 1 for scan in found)
        shared = 4 * 32 * schedule.strips * words
        return Footprint(_WORKING + (schedule.depth + 3) * words, shared)
    if isinstance(schedule, Banded):
        kept, shared = banded_footprint(graph, schedule)
        return Footprint(_WORKING + kept, shared)
    if isinstance(schedule, Transposed):
        return Footprint(_WORKING + len(graph.nodes) // 4, transposed_bytes(graph, schedule))
    if isinstance(schedule, Tiled):
        return _tiled_footprint(graph, schedule)
    stores = row_stores(graph, Signature.of(graph), row_count(graph))
    if isinstance(schedule, Split | Staged):
        schedule = Rowwise(schedule.lanes, 1, schedule.vector, cached=False)
    if isinstance(schedule, Columnwise | ColumnSplit):
        shared = 4 * 32 * schedule.strips * schedule.vector * _partials(stores)
        is_kept = isinstance(schedule, Columnwise) and schedule.cached
        kept = register_count(loops(stores, online=False), schedule.strips, 1) if is_kept else 0
        return Footprint(_WORKING + 2 * schedule.vector + kept, shared)
    return _row_footprint(stores, schedule)


def _tiled_footprint(graph: Graph, schedule: Tiled) -> Footprint:
    tiles = Tiles.of(graph, Signature.of(graph), schedule)
    rows = Rowwise(schedule.lanes, schedule.rows, 1, cached=schedule.cached)
    return replace(_row_footprint(list(tiles.stores), rows), threadgroup_bytes=tiles.nbytes)


def _row_footprint(stores: list[Store], schedule: Rowwise) -> Footprint:
    sequence = loops(stores, online=schedule.online)
    kept = register_count(sequence, schedule.lanes, schedule.vector) if schedule.cached else 0
    if schedule.cached:
        rankings = [loop for loop in sequence if loop.ranked]
        kept += sum(per_lane(r.axis, schedule.lanes, schedule.vector) for r in rankings)
    places = schedule.lanes // 32 if schedule.lanes > 32 else 0
    return Footprint(_WORKING + kept, 4 * places * _partials(stores))


def _partials(stores: list[Store]) -> int:
    """Count the threadgroup arrays in which lanes leave what each of them found."""
    found = [t for t in walk([s.value for s in stores]) if isinstance(t, ReduceExpr)]
    return sum(2 if r.reducer in (Reducer.ARGMAX, Reducer.ARGMIN) else 1 for r in found)


def _elementwise(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    signature = Signature.of(graph)
    if (stacked := stacked_axis(graph)) is not None:
        yield from _stacked(stacked_layers(graph, signature, stacked), device)
        return
    parts = split_at_choices(graph, signature, pieces(graph, [0]))
    axes = domain(graph, signature, parts)
    width = max(t.dtype.itemsize for t in graph.output_types)
    total = math.prod(a.extent for a in axes)
    # 16 bytes a thread fill a memory transaction; a small array needs the threads more.
    best = 1 if total < 1 << 16 else min(16 // width, _preferred_run(graph, device))
    inner = axes[-1].extent
    best = math.gcd(best, inner)
    vectors = [v for v in _widths(graph) if v <= inner]
    vectors.sort(key=lambda v: (inner % v != 0, abs(math.log2(v / best))))
    guarded = _guards_reads(graph, signature, parts, axes)
    unrolls = (1,) if guarded or best == 1 else UNROLLS
    pairs = [(v, u) for v in vectors for u in unrolls if u == 1 or v > 1]
    # The plain run first: it is the simplest, and the only one that serves other sizes.
    pairs.sort(key=lambda p: (p != (vectors[0], 1), inner % p[0] != 0, _shortfall(p, width, best)))
    rows = sharing_rows(graph, signature, parts, axes, _ROWS)
    below = [(v, 1, r) for v in vectors[:2] for r in rows]
    runs = [(*pairs[0], 1), *below, *((v, u, 1) for v, u in pairs[1:])]
    for threads in (256, 128, 512, 64, 1024):
        if threads > device.threads_per_threadgroup:
            continue
        for vector, unroll, together in runs:
            schedule = Elementwise(vector, threads, unroll, together)
            if unroll == 1 or is_even(axes, schedule):
                yield schedule


def _guards_reads(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether an element is read only where a choice says so, as in padding.

    Several runs a thread are not tried then: with two of them, NVIDIA's assembler (CUDA 13.0) moves
    such a read above the question whether it lies inside its array.
    """
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    certain = {t.number for t in always(values)}
    return any(isinstance(t, Load) and t.number not in certain for t in walk(values))


def _stacked(layers: list[Layer] | None, device: DeviceInfo) -> Iterator[Schedule]:
    """Yield schedules of outputs that stand on top of each other, wide runs first."""
    columns = layers[0].axes[2].extent if layers else 1
    for threads in (256, 128, 512, 64):
        for vector in (4, 2, 1):
            if columns % vector == 0 and threads <= device.threads_per_threadgroup:
                yield Elementwise(vector, threads)


def _shortfall(pair: tuple[int, int], width: int, best: int) -> float:
    """Return how far a thread's bytes in flight are from what hides the memory's latency."""
    wanted = width if best == 1 else BYTES_IN_FLIGHT
    return abs(math.log2(pair[0] * pair[1] * width / wanted))


def _widths(graph: Graph) -> tuple[int, ...]:
    """Return how many neighbours a lane may take together: four, or what fills 16 bytes."""
    width = min(t.dtype.itemsize for t in (*graph.input_types, *graph.output_types))
    return (1, *(w for w in WIDTHS if w <= max(16 // width, 4)))


def _preferred_run(graph: Graph, device: DeviceInfo) -> int:
    """Return how many neighbours of a graph's largest array a lane takes best."""
    most = max((*graph.input_types, *graph.output_types), key=lambda t: t.size)
    return preferred_run(device, most.dtype.itemsize)


def _column_scans(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    """Yield scans along an outer axis, those first that keep a GPU busy with wide reads."""
    shape, signature = column_scan_shape(graph), Signature.of(graph)
    first = ColumnScan(1, 1, 1)
    words = sum(
        2 if is_wide(s) else 1 for s in scanned(column_scan_stores(graph, signature, first))
    )
    found = []
    for vector, strips, depth in product(_widths(graph), (32, 16, 8, 4), (8, 4, 2, 1)):
        schedule = ColumnScan(strips, depth, vector)
        is_long = strips * depth > shape.length and (strips, depth) != (4, 1)
        taken = footprint(graph, schedule) if shape.columns % vector == 0 else None
        if taken is None or is_long or strips * 32 > device.threads_per_threadgroup:
            continue
        fits = taken.threadgroup_bytes <= device.threadgroup_bytes
        if fits and words * vector * (depth + 3) <= MAXIMUM_KEPT:
            found.append(schedule)
    results = shape.planes * shape.columns

    def strangeness(s: ColumnScan) -> tuple[float, ...]:
        threads = results // s.vector * s.strips
        lanes = min(shape.columns // s.vector, 32)
        idle = abs(math.log2(max(threads, 1) / _MANY)) if threads < _MANY else 0.0
        in_flight = abs(math.log2(s.vector * s.depth / BYTES_IN_FLIGHT))
        return (idle + in_flight + 2 * math.log2(32 / lanes), -s.vector)

    return iter(sorted(found, key=strangeness))


def _scans(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    """Yield scans, those that take a row in one tile or a few first."""
    rows, columns = scan_shape(graph)
    scans = scanned(scan_stores(graph, Signature.of(graph), rows, columns))
    sequences = [Scan(1, threads, 1) for threads in (64, 256)]
    vectors = [
        v for v in _widths(graph) if columns % v == 0 and (v == 1 or not scans[0].is_reverse)
    ]
    lanes = [n for n in (32, 64, 128, 256, 512, 1024) if n <= device.threads_per_threadgroup]
    found = [
        Scan(n, rows_together, v)
        for n in lanes
        for v in vectors
        if n == 32 or n * v < 2 * columns
        for rows_together in ((4, 1, 8) if n == 32 else (1,))
    ]
    wanted = min(columns, 1024)
    found.sort(
        key=lambda s: (
            s.lanes == 32 and s.rows != 4,
            abs(math.log2(s.lanes * s.vector / wanted)),
            -s.vector,
        )
    )
    return iter([*sequences, *found] if columns <= _SHORT_ROW else found)


def _rowwise(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    stores = row_stores(graph, Signature.of(graph), row_count(graph))
    sequence = loops(stores, online=False)
    columns = max(loop.axis.extent for loop in sequence)
    has_pairs = bool(online_pairs([r for loop in sequence for r in loop.reduced]))
    strided = is_strided(stores)
    found = [
        schedule
        for schedule in _combinations(columns, device.threads_per_threadgroup, _widths(graph))
        if _is_legal(schedule, sequence, stores, device) and (has_pairs or not schedule.online)
    ]
    run = _preferred_run(graph, device)
    found.sort(key=lambda s: _strangeness(s, columns, run, strided=strided))
    if any(is_compensated(r) for loop in sequence for r in loop.reduced):
        # Slower, and worth a trial only where plain sums are not accurate enough: the last.
        found.append(replace(found[0], kahan=True, online=False))
    spelled = [*_spelled_out(graph, device), *_tiled(graph, columns, device, strided=strided)]
    staged = _staged(graph, columns, device, strided=strided)
    is_idle = row_count(graph) <= FEW_ROWS
    if not strided:
        first = [*_splits(graph, columns), *(staged if is_idle else ())]
        later = [*found[:_TRIED_BEFORE_STAGES], *staged, *found[_TRIED_BEFORE_STAGES:]]
        return iter([*spelled, *first, *(found if is_idle else later)])
    vectors = _runs_of_results(graph, device)
    columnwise = list(_columnwise(stores, columns, vectors, device, has_pairs=has_pairs))
    # Too few threads to hide the memory's latency want more threadgroups a column.
    splits = _column_splits(graph, columns, vectors)
    is_few = row_count(graph) * columnwise[0].strips < _MANY if columnwise else True
    order = (splits, staged, columnwise) if is_few else (columnwise, splits, staged)
    kept = _kept_columns(graph, stores, columns, found, device)
    return iter([*spelled, *kept, *order[0], *order[1], *order[2], *found])


def _kept_columns(
    graph: Graph,
    stores: list[Store],
    columns: int,
    rowwise: Sequence[Rowwise],
    device: DeviceInfo,
) -> list[Schedule]:
    """Return schedules that read a column once and keep it in registers between passes.

    A thread has all of a short column, so that none waits for another; strips share longer ones.
    """
    results, sequence = row_count(graph), loops(stores, online=False)
    found: list[Columnwise | Rowwise] = [s for s in rowwise if s.lanes == 1 and s.cached]
    for strips in (2, 4, 8, 16, 32):
        kept = register_count(sequence, strips, 1)
        threads = 32 * strips
        is_resident = threads * (kept + _WORKING) <= _REGISTERS_OF_A_CORE
        shared = 4 * threads * _partials(stores)
        fits = shared <= device.threadgroup_bytes and threads <= device.threads_per_threadgroup
        if 0 < kept <= MAXIMUM_KEPT and is_resident and fits and strips <= columns:
            found.append(Columnwise(strips, cached=True))

    def strangeness(s: Columnwise | Rowwise) -> float:
        strips = s.strips if isinstance(s, Columnwise) else 1
        idle = max(math.log2(_MANY / 4 / max(results * strips, 1)), 0.0)
        return abs(math.log2(columns / strips / _FEW_STEPS)) + 2 * idle

    return list[Schedule](sorted(found, key=strangeness)[:_TRIED_KEPT])


def _columnwise(
    stores: list[Store],
    columns: int,
    vectors: Sequence[int],
    device: DeviceInfo,
    *,
    has_pairs: bool,
) -> Iterator[Columnwise]:
    """Yield schedules of reductions across memory, those that read runs first."""
    places = 4 * 32 * _partials(stores)
    by_order = sorted((8, 16, 4, 32, 2), key=lambda strips: columns > _MOST_TERMS * strips)
    for vector in vectors:
        for strips in by_order:
            fits = strips <= columns and strips * vector * places <= device.threadgroup_bytes
            if not fits:
                continue
            yield Columnwise(strips, vector=vector)
            if has_pairs and vector == 1:
                yield Columnwise(strips, online=True)


def _runs_of_results(graph: Graph, device: DeviceInfo) -> list[int]:
    """Return how many neighbouring results a thread may take, what reads best first."""
    signature, rows, found = Signature.of(graph), row_count(graph), []
    for vector in (_preferred_run(graph, device), 2):
        schedule = Columnwise(2, vector=vector)
        try:
            lower_rowwise(graph, signature, schedule)
        except UnsupportedError:
            continue
        if rows >= _FEWEST_RUNS * vector:
            found.append(vector)
    return [*found, 1]


def _tiled(graph: Graph, columns: int, device: DeviceInfo, *, strided: bool) -> list[Schedule]:
    """Return ways to hold short rows in threadgroup memory, where lanes would read them badly."""
    rows, run = row_count(graph), _preferred_run(graph, device)
    is_even = columns % run == 0 and columns >= run
    if not 2 < columns <= _LONGEST_TILED or rows < _FEWEST_TILED or (is_even and not strided):
        return []
    found = list[Schedule]()
    for lanes, threads in ((1, 128), (1, 64), (2, 128), (4, 128), (8, 128), (1, 256)):
        for cached in (True, False):
            schedule = Tiled(lanes, tile_rows(graph, lanes, max(threads // lanes, 1)), cached)
            if schedule.rows and _fits_tiled(graph, schedule, device):
                found.append(schedule)
                break
    # A lane's values are kept in as few registers as let many simdgroups stay.
    lanes = min(1 << max(columns // _FEW_KEPT, 0).bit_length(), 8)
    found.sort(key=lambda s: isinstance(s, Tiled) and (not s.cached, abs(s.lanes - lanes)))
    return found


def _fits_tiled(graph: Graph, schedule: Tiled, device: DeviceInfo) -> bool:
    try:
        taken = footprint(graph, schedule)
    except UnsupportedError:
        return False
    if schedule.rows * schedule.lanes > device.threads_per_threadgroup:
        return False
    fits = taken.threadgroup_bytes <= device.threadgroup_bytes
    return fits and (not schedule.cached or _WORKING < taken.registers <= MAXIMUM_KEPT + _WORKING)


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
    read = sum(t.size for t in graph.input_types)
    if joins_neighbours and read * _READ_OFTEN > least:
        return []
    return list(_elementwise(graph, device))


def _column_splits(graph: Graph, columns: int, vectors: Sequence[int]) -> list[Schedule]:
    """Return ways to divide long reductions across memory among threadgroups."""
    signature, found = Signature.of(graph), []
    if any(t.size != row_count(graph) for t in graph.output_types):
        return []
    for vector, chunks, strips in product(vectors, (16, 32, 64, 8), (8, 4)):
        if columns % chunks == 0 and columns // chunks >= 4 * strips:
            schedule = ColumnSplit(chunks, strips, vector)
            try:
                lower_split(graph, signature, schedule)
            except UnsupportedError:
                return []
            found.append(schedule)
    return list[Schedule](found)


def _staged(graph: Graph, columns: int, device: DeviceInfo, *, strided: bool) -> list[Schedule]:
    """Return ways to compute few long reductions in stages, and what depends on them."""
    rows = row_count(graph)
    if rows * columns < _WORTH_STAGES or rows > (_MANY if strided else _ROWS_IN_STAGES):
        return []
    run = _preferred_run(graph, device)
    if strided:
        wanted = [_MANY * run // (2 * rows * strips) for strips in (8, 4)]
        pairs = [(max(n, 2), s) for n, s in zip(wanted, (8, 4), strict=True)]
        pairs += [(max(wanted[0] // 4, 2), 8), (max(wanted[0] * 4, 2), 8)]
    else:
        counts = (n for n in (2048, 8192, 32768, 1024) if rows * columns >= _LEAST_PART * n)
        pairs = [(max(n // rows, 2), 8) for n in counts]
    signature, found = Signature.of(graph), list[Schedule]()
    for wanted_parts, strips in pairs:
        try:
            for parts in part_counts(graph, [wanted_parts]):
                schedule = Staged(parts, 256, strips, run)
                lower_staged(graph, signature, schedule)
                found.append(schedule)
        except UnsupportedError:
            continue
    return list(dict.fromkeys(found))


def _splits(graph: Graph, columns: int) -> Iterator[Schedule]:
    rows = row_count(graph)
    if rows > FEW_ROWS or columns < LONG_ROW or any(t.size != rows for t in graph.output_types):
        return
    signature = Signature.of(graph)
    for chunks in (64, 128, 32, 256):
        vector = 4 if columns % (4 * chunks) == 0 else 1
        schedule = Split(chunks, 256, vector)
        try:
            lower_split(graph, signature, schedule)
        except UnsupportedError:
            continue
        yield schedule


def _combinations(columns: int, threads: int, widths: tuple[int, ...]) -> Iterator[Rowwise]:
    vectors = [v for v in widths if columns % v == 0]
    # Runs that do not divide a long row leave a few elements of it to single lanes.
    uneven = [v for v in widths if columns % v and v >= _UNEVEN_RUN and columns > _LONGEST_TILED]
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
    taken = _row_footprint(stores, schedule)
    # Where nothing is read twice there is nothing to keep.
    if schedule.cached and not _WORKING < taken.registers <= MAXIMUM_KEPT + _WORKING:
        return False
    # What a core's registers do not hold is spilled: 65 instead of 38 us for rows of 50,257 halves.
    if schedule.cached and schedule.lanes * taken.registers > _REGISTERS_OF_A_CORE:
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
    if strided or columns <= _SHORT_ROW:
        wanted = 1
    lanes = abs(math.log2(schedule.lanes / wanted))
    is_long = columns % run == 0 or columns > _LONGEST_TILED
    vector = abs(math.log2(schedule.vector / (run if is_long else 1)))
    kept = 0.0 if schedule.cached else 0.5 if schedule.online else 1.0
    # Rows a threadgroup matter least, so that other choices are tried before they are.
    rows = 0.0 if schedule.rows == _ROWS_TOGETHER.get(schedule.lanes, (1,))[0] else 2.0
    if schedule.lanes == 1:
        kept = 0.0 if schedule.online or not schedule.cached else 0.5
    return (0.6 * lanes + vector / 2 + kept + rows, lanes, vector, kept, rows)
