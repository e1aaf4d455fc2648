"""Which schedules a product of few rows has on a device, the best guess first."""

import math
from collections.abc import Iterator
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.component import longest_part, ragged_parts
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.lower.emit.neighbour import WIDTHS
from kernelwright.metal.lower.emit.run import preferred_run
from kernelwright.metal.lower.gemv.terms import RESERVED_HERE
from kernelwright.metal.lower.gemv.tiling import Tiling
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Dense
from kernelwright.metal.target.gpu import Gpu, gpu_of

MAXIMUM_KEPT = 64
"""Registers that a lane's sums and row elements may take; our choice."""
MAXIMUM_KEPT_ACROSS = 112
"""The same where lanes have columns of their own, whose weights they read ahead."""
SIMDGROUPS_WANTED = 4096
"""Simdgroups that fill a large GPU several times over."""
LANE_BYTES = 64
"""Bytes of weights that a lane with columns of its own should have asked for."""
LARGEST_REGISTER_FILE = 65536
"""Registers of an NVIDIA core, which a threadgroup's threads share."""
SHORTEST_PART = 16
"""Terms below which a simdgroup's part of a sum is not worth a chunk."""
WORKING = 16
"""Registers for addresses and intermediate values."""
WIDEST_THREAD = 88
"""Registers of a thread beyond which too few simdgroups share a core; our choice."""


def dense_schedules(graph: Graph, device: DeviceInfo) -> tuple[Dense, ...]:
    """Return every legal schedule, in the order in which to try them.

    Raises:
        UnsupportedError: the graph is no product of few rows.
    """
    if prologue := prologue_of(graph):
        return dense_schedules(prologue.rest.bare(), device)
    parts = ragged_parts(graph)
    if parts:
        spaces = [dense_schedules(part.bare(), device) for part in parts]
        longest = spaces[longest_part(parts)]
        shared = [s for s in longest if s.chunks == 1 and all(s in space for space in spaces)]
        if not shared:
            raise UnsupportedError("no schedule divides all of the products side by side.")
        return tuple(shared)
    signature = Signature.of(graph, RESERVED_HERE)
    plain = Tiling.of(graph, signature, Dense(1, 1, 1, 1))
    widest = preferred_run(device, max(t.dtype.itemsize for t in graph.input_types))
    vectors = tuple(v for v in (1, *WIDTHS) if v <= widest)
    found = [
        tiling
        for schedule in _combinations(plain.is_along, vectors)
        if (tiling := plain.scheduled(schedule)) and _is_legal(tiling, device)
    ]
    gpu = gpu_of(device)
    found.sort(key=lambda tiling: _strangeness(tiling, gpu, widest))
    return tuple(tiling.schedule for tiling in found) or (plain.schedule,)


def dense_tiling(graph: Graph, schedule: Dense) -> Tiling:
    """Return how a schedule divides a graph's products, the longest of those side by side."""
    if prologue := prologue_of(graph):
        return dense_tiling(prologue.rest.bare(), schedule)
    parts = ragged_parts(graph)
    if parts:
        return dense_tiling(parts[longest_part(parts)].bare(), schedule)
    return Tiling.of(graph, Signature.of(graph, RESERVED_HERE), schedule)


def _combinations(is_along: bool, vectors: tuple[int, ...]) -> Iterator[Dense]:
    if is_along:
        for chosen in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), vectors):
            yield Dense(*chosen)
        return
    shapes = [(32, 1), (32, 2), (32, 4), (16, 1), (8, 1), (4, 1)]
    for vector, strips, (lanes, teams) in product(vectors, (1, 2, 4, 8, 16, 32), shapes):
        for terms, chunks in product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32, 64, 128)):
            yield Dense(1, strips, teams, vector, terms, chunks, lanes)


def _is_legal(tiling: Tiling, device: DeviceInfo) -> bool:
    schedule, dense = tiling.schedule, tiling.dense
    shortest = SHORTEST_PART * tiling.parts if schedule.chunks > 1 else 1
    registers = tiling.threads * (WORKING + tiling.registers)
    return (
        tiling.threads <= device.threads_per_threadgroup
        and tiling.threadgroup_bytes <= device.threadgroup_bytes
        and tiling.registers <= (MAXIMUM_KEPT if tiling.is_along else MAXIMUM_KEPT_ACROSS)
        # Parts without terms would only cost a barrier.
        and (tiling.parts == 1 or tiling.parts * tiling.step <= dense.depth)
        and shortest <= dense.depth
        and (tiling.is_along or registers <= LARGEST_REGISTER_FILE)
        and (tiling.is_along or schedule.teams == 1 or tiling.tile <= dense.column.extent)
    )


def _strangeness(tiling: Tiling, gpu: Gpu, widest: int) -> float:
    """Measure the distance of a schedule from what one would write first."""
    groups = -(-tiling.dense.column.extent // tiling.tile) * tiling.dense.matrices
    simdgroups = groups * tiling.parts * tiling.schedule.teams
    narrow = math.log2(widest / tiling.schedule.vector)
    if tiling.is_along:
        return 0.5 * narrow + _strangeness_along(tiling, simdgroups)
    return 0.3 * narrow + _strangeness_across(tiling, simdgroups, gpu)


def _strangeness_along(tiling: Tiling, simdgroups: int) -> float:
    schedule = tiling.schedule
    lacking = max(math.log2(SIMDGROUPS_WANTED / simdgroups), 0.0)
    # Lanes past the last term of a dot product idle.
    idle = math.log2(max(tiling.step * schedule.strips / tiling.dense.depth, 1.0))
    return (
        0.5 * lacking
        + 0.4 * abs(math.log2(schedule.columns / 4))
        + 0.3 * abs(math.log2(tiling.threads / 128))
        + 0.2 * math.log2(schedule.strips)
        + idle
    )


def _strangeness_across(tiling: Tiling, simdgroups: int, gpu: Gpu) -> float:
    schedule, dense = tiling.schedule, tiling.dense
    row_bytes = tiling.weight_bytes * dense.column.extent * dense.matrices
    results = dense.column.extent * dense.matrices * dense.tokens * len(tiling.dots)
    # Chunks write each sum and read it again.
    merging = gpu.bytes_per_launch + 8 * schedule.chunks * results
    extra = merging / (row_bytes * dense.depth) if schedule.chunks > 1 else 0.0
    asked = tiling.weight_bytes * schedule.vector * schedule.terms
    lacking = max(math.log2(gpu.bytes_in_flight / (32 * asked * simdgroups)), 0.0)
    crowded = max(math.log2((WORKING + tiling.registers) / WIDEST_THREAD), 0.0)
    is_late = schedule.terms == 1
    return (
        0.7 * lacking
        + math.log2(1 + extra)
        + 0.2 * abs(math.log2(asked / LANE_BYTES))
        + crowded
        # Without terms ahead a compiler asks for one run and waits for it.
        + 0.5 * is_late
        # Lanes side by side read whole pages of memory.
        + 0.15 * math.log2(tiling.slots)
        + 0.3 * abs(math.log2(tiling.threads / 256))
        + 0.2 * math.log2(schedule.teams)
    )
