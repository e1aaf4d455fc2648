"""From the runtime's sums to the counters of a launch."""

import ctypes
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod, sqrt
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import BufferTraffic, Counters, LineCost
from kernelwright.metal.device.simulator.line_table import Place, read_line_table
from kernelwright.metal.device.simulator.listing import Listing, Mix, read_listing
from kernelwright.metal.device.simulator.record import Buffer

_MOST_BUFFERS = 64
_FLOAT, _SPECIAL, _INTEGER, _MATRIX, _ATOMIC, _QUICK, _TENSOR = range(7)
_FLOPS_OF_A_MATRIX_OPERATION = 8 * 8 * 8 * 2
_SIMD_WIDTH = 32
_SECTOR_BYTES = 32
SITES = 2048
"""`SITES` of meter.h."""
_TEXTS = ("source", "header")
_MOST_LINES = 6
_LEAST_SHARE = 0.05
"""Of the sectors, conflicts or operations, below which a line is not worth a look."""
Line = tuple[str, int]
"""A file and a line's number in it."""


class BufferTally(ctypes.Structure):
    """`BufferTally` of meter.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("bytes_read", "bytes_written", "sectors_read", "sectors_written"),
            *("reads", "writes", "group_sectors_read", "read_rounds", "looped_rounds"),
            *("unique_bytes_read", "unique_bytes_written"),
            *("unique_sectors_read", "unique_sectors_written"),
            *("shared_bytes_read", "shared_bytes_written"),
            *("shared_sectors_read", "shared_sectors_written"),
        )
    )


class Tally(ctypes.Structure):
    """`Tally` of meter.h."""

    _fields_ = (
        ("buffers", BufferTally * _MOST_BUFFERS),
        ("threadgroup_bytes_read", ctypes.c_uint64),
        ("threadgroup_bytes_written", ctypes.c_uint64),
        ("bank_conflicts", ctypes.c_uint64),
        ("barriers", ctypes.c_uint64),
        ("simd_operations", ctypes.c_uint64),
        ("operations", ctypes.c_uint64 * 7),
        ("divergent_blocks", ctypes.c_uint64),
        ("counted_groups", ctypes.c_uint64),
        ("counted_threads", ctypes.c_uint64),
        ("work", ctypes.c_uint64),
        ("sectors", ctypes.c_uint64),
        ("threadgroup_memory", ctypes.c_uint64),
        ("largest_work", ctypes.c_uint64),
        ("largest_sectors", ctypes.c_uint64),
        ("work_squares", ctypes.c_double),
        ("sector_squares", ctypes.c_double),
    )


class SiteTally(ctypes.Structure):
    """`SiteTally` of meter.h."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("key", "sectors", "bank_conflicts"))


class BlockTally(ctypes.Structure):
    """`BlockTally` of meter.h."""

    _fields_ = (("lanes", ctypes.c_uint64), ("issued", ctypes.c_uint64))


class BlockRecord(ctypes.Structure):
    """`BlockRecord` of meter.h."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("work", "order", "end"))


def read_counters(
    kernel: str,
    library: Path,
    grid: tuple[int, ...],
    threadgroup: tuple[int, ...],
    buffers: Sequence[Buffer],
    tally: Tally,
    blocks: Sequence[BlockTally],
    sites: Sequence[SiteTally],
) -> Counters:
    """Return what a launch cost, extrapolated by threads where a sample was counted."""
    threads = prod(grid)
    counted = int(tally.counted_threads)
    scale = threads / counted if counted else 0.0

    groups = prod(-(-g // t) for g, t in zip(grid, threadgroup, strict=True))

    def whole(value: int) -> int:
        return round(value * scale)

    listing = _listing(library, len(blocks))
    mixes = listing.mixes
    lanes = [(m, int(b.lanes)) for m, b in zip(mixes, blocks, strict=True)]
    issued = [(m, int(b.issued) * _SIMD_WIDTH) for m, b in zip(mixes, blocks, strict=True)]
    return Counters(
        kernel=kernel,
        threads=threads,
        threadgroups=groups,
        counted_threadgroups=int(tally.counted_groups),
        threadgroup_bytes=int(tally.threadgroup_memory),
        buffers=tuple(_traffic(b, t, scale) for b, t in zip(buffers, tally.buffers, strict=False)),
        threadgroup_bytes_read=whole(tally.threadgroup_bytes_read),
        threadgroup_bytes_written=whole(tally.threadgroup_bytes_written),
        bank_conflicts=whole(tally.bank_conflicts),
        barriers=whole(tally.barriers),
        simd_operations=whole(tally.simd_operations),
        float_operations=whole(sum(m.floats * n for m, n in lanes)),
        special_operations=whole(
            sum(m.specials * n for m, n in lanes) + tally.operations[_SPECIAL]
        ),
        quick_operations=whole(tally.operations[_QUICK]),
        integer_operations=whole(sum(m.integers * n for m, n in lanes)),
        matrix_operations=whole(tally.operations[_MATRIX] / _FLOPS_OF_A_MATRIX_OPERATION),
        tensor_operations=whole(tally.operations[_TENSOR] / _FLOPS_OF_A_MATRIX_OPERATION),
        atomic_operations=whole(tally.operations[_ATOMIC]),
        divergent_branches=whole(tally.divergent_blocks),
        active_lanes=_active_share(lanes, issued),
        group_imbalance=_imbalance(tally),
        sampling_error=_sampling_error(tally, groups),
        lines=line_costs(
            places=[(read_line_table(library).find(_pc(s)), s) for s in sites if s.key],
            operations=_by_line(listing.lines, [int(b.lanes) for b in blocks]),
            names=[b.name for b in buffers],
            scale=scale,
        ),
    )


def _pc(site: SiteTally) -> int:
    """Return a place within the call of an access, relative to the library; see log_access."""
    return (int(site.key) >> 9) - 1


def _by_line(lines: Sequence[Mapping[Line, int]], lanes: Sequence[int]) -> Mapping[Line, int]:
    found = Counter[Line]()
    for of_block, count in zip(lines, lanes, strict=True):
        for line, operations in of_block.items():
            found[line] += operations * count
    return found


def line_costs(
    places: Iterable[tuple[Place, SiteTally]],
    operations: Mapping[Line, int],
    names: Sequence[str],
    scale: float,
) -> tuple[LineCost, ...]:
    """Return the lines of the text that take the largest share of anything that is counted."""
    sectors, conflicts = Counter[tuple[Line, str]](), Counter[Line]()
    for place, site in places:
        line, buffer = (place.file, place.line), int(site.key) & 255
        if buffer < len(names):
            sectors[line, names[buffer]] += int(site.sectors)
        conflicts[line] += int(site.bank_conflicts)
    moved = Counter[Line]()
    for (line, _), count in sectors.items():
        moved[line] += count
    kinds = (moved, conflicts, operations)
    sums = [sum(kind.values()) or 1 for kind in kinds]

    def share(line: Line) -> float:
        return max(kind.get(line, 0) / whole for kind, whole in zip(kinds, sums, strict=True))

    known = {line for kind in kinds for line in kind if line[0] in _TEXTS and line[1]}
    dearest = sorted(known, key=lambda line: (-share(line), line))
    return tuple(
        LineCost(
            file=line[0],
            line=line[1],
            sectors=tuple(
                (name, round(count * scale))
                for (of, name), count in sectors.most_common()
                if of == line
            ),
            bank_conflicts=round(conflicts[line] * scale),
            operations=round(operations.get(line, 0) * scale),
        )
        for line in dearest[:_MOST_LINES]
        if share(line) >= _LEAST_SHARE
    )


def read_blocks(library: Path, count: int) -> "ctypes.Array[BlockRecord]":
    """Return what a run of each block takes, and where it stands in the order of its function."""
    listing = _listing(library, count)
    return (BlockRecord * count)(
        *(
            BlockRecord(1 + mix.operations, place.order, place.end)
            for mix, place in zip(listing.mixes, listing.places, strict=True)
        )
    )


def _imbalance(tally: Tally) -> float:
    """Return what the largest threadgroup does or moves, over the mean of those counted."""
    groups = int(tally.counted_groups)
    pairs = ((tally.largest_work, tally.work), (tally.largest_sectors, tally.sectors))
    return max((int(most) * groups / int(total) for most, total in pairs if total), default=1.0)


def _sampling_error(tally: Tally, groups: int) -> float:
    """Return two standard errors of the sums, as a share of them; 0 where all were counted."""
    counted = int(tally.counted_groups)
    if not 1 < counted < groups:
        return 0.0
    errors = [0.0]
    sums = ((tally.work, tally.work_squares), (tally.sectors, tally.sector_squares))
    for total, squares in sums:
        mean = int(total) / counted
        if mean:
            variance = max(squares / counted - mean * mean, 0.0) * counted / (counted - 1)
            errors.append(2 * sqrt(variance / counted * (1 - counted / groups)) / mean)
    # Workers add up in any order.
    return float(f"{max(errors):.2g}")


def _traffic(buffer: Buffer, tally: BufferTally, scale: float) -> BufferTraffic:
    def whole(value: int) -> int:
        return round(value * scale)

    def unique(found: int, shared: int, most: int) -> int:
        return min(_whole_population(found, shared, scale), most)

    size = buffer.data.nbytes
    sectors = -(-size // _SECTOR_BYTES)

    return BufferTraffic(
        name=buffer.name,
        bytes_read=whole(tally.bytes_read),
        bytes_written=whole(tally.bytes_written),
        sectors_read=whole(tally.sectors_read),
        sectors_written=whole(tally.sectors_written),
        reads=whole(tally.reads),
        writes=whole(tally.writes),
        group_sectors_read=whole(tally.group_sectors_read),
        read_rounds=whole(tally.read_rounds),
        looped_rounds=whole(tally.looped_rounds),
        unique_bytes_read=unique(tally.unique_bytes_read, tally.shared_bytes_read, size),
        unique_bytes_written=unique(tally.unique_bytes_written, tally.shared_bytes_written, size),
        unique_sectors_read=unique(tally.unique_sectors_read, tally.shared_sectors_read, sectors),
        unique_sectors_written=unique(
            tally.unique_sectors_written, tally.shared_sectors_written, sectors
        ),
    )


def _whole_population(found: int, shared: int, scale: float) -> int:
    """Return how much all threadgroups touch, where a sample touched `found`.

    What both halves of the sample touched is `shared`: two catches from one pond, the size of which
    follows from what was caught twice (Lincoln and Petersen). Where nothing is shared each
    threadgroup touches its own.
    """
    apart = round(found * scale)
    if not shared or scale == 1:
        return apart
    half = (found + shared) / 2
    return min(apart, max(round(half * half / shared), found))


def _listing(library: Path, count: int) -> Listing:
    """Return what each block computes, from the listing of this very build.

    Raises:
        DeviceError: there is none, so that nothing is known of what was counted.
    """
    listing = library.with_suffix(".so.ll")
    found = read_listing(listing) if listing.exists() else Listing((), ())
    if not count or len(found.mixes) != count:
        raise DeviceError(
            f"the counts of {library.name} cannot be read: expected the operations of its {count} "
            f"blocks in {listing.name}, found those of {len(found.mixes)}; delete both and count "
            "again."
        )
    return found


def _active_share(lanes: list[tuple[Mix, int]], issued: list[tuple[Mix, int]]) -> float:
    """Return the share of issued lanes that took part, weighted by operations."""

    def work(runs: list[tuple[Mix, int]]) -> int:
        return sum(m.operations * n for m, n in runs)

    return min(work(lanes) / work(issued), 1.0) if work(issued) else 1.0
