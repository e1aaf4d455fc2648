"""Which schedules a product of few rows has on a device, the best guess first."""

import math
from collections.abc import Iterator
from itertools import product

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.dense import RESERVED_HERE
from kernelwright.metal.lower.run import WIDTHS, preferred_run
from kernelwright.metal.lower.signature import Signature
from kernelwright.metal.lower.tiling import Tiling
from kernelwright.metal.schedule import Dense

MAXIMUM_KEPT = 64
"""Registers that a lane's sums and row elements may take; our choice."""
SIMDGROUPS_WANTED = 4096
"""Simdgroups that fill a large GPU several times over."""


def dense_schedules(graph: Graph, device: DeviceInfo) -> tuple[Dense, ...]:
    """Return every legal schedule, in the order in which to try them.

    Raises:
        UnsupportedError: the graph is no product of few rows.
    """
    signature = Signature.of(graph, RESERVED_HERE)
    plain = Tiling.of(graph, signature, Dense(1, 1, 1, 1))
    widest = preferred_run(device, max(t.dtype.itemsize for t in graph.input_types))
    vectors = tuple(v for v in (1, *WIDTHS) if v <= widest)
    found = [
        tiling
        for schedule in _combinations(plain.is_along, vectors)
        if (tiling := plain.scheduled(schedule)) and _is_legal(tiling, device)
    ]
    found.sort(key=lambda tiling: _strangeness(tiling, widest))
    return tuple(tiling.schedule for tiling in found) or (plain.schedule,)


def dense_tiling(graph: Graph, schedule: Dense) -> Tiling:
    """Return how a schedule divides a graph's products."""
    return Tiling.of(graph, Signature.of(graph, RESERVED_HERE), schedule)


def _combinations(is_along: bool, vectors: tuple[int, ...]) -> Iterator[Dense]:
    if is_along:
        for chosen in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), vectors):
            yield Dense(*chosen)
        return
    for strips, teams, vector in product((1, 2, 4, 8, 16, 32), (1, 2, 4), vectors):
        yield Dense(1, strips, teams, vector)


def _is_legal(tiling: Tiling, device: DeviceInfo) -> bool:
    schedule, dense = tiling.schedule, tiling.dense
    # Strips without terms would only cost a barrier.
    step = 32 * schedule.vector if tiling.is_along else 1
    return (
        tiling.threads <= device.threads_per_threadgroup
        and tiling.threadgroup_bytes <= device.threadgroup_bytes
        and tiling.registers <= MAXIMUM_KEPT
        and (schedule.strips == 1 or schedule.strips * step <= dense.depth)
        and (tiling.is_along or schedule.teams == 1 or tiling.tile <= dense.column.extent)
    )


def _strangeness(tiling: Tiling, widest: int) -> float:
    """Measure the distance of a schedule from what one would write first."""
    schedule, dense = tiling.schedule, tiling.dense
    groups = -(-dense.column.extent // tiling.tile) * dense.matrices
    simdgroups = groups * schedule.strips * schedule.teams
    lacking = max(math.log2(SIMDGROUPS_WANTED / simdgroups), 0.0)
    own = schedule.columns if tiling.is_along else 4
    # Lanes past the last term of a dot product idle.
    step = 32 * schedule.vector * schedule.strips if tiling.is_along else 1
    idle = math.log2(max(step / dense.depth, 1.0))
    return (
        0.5 * lacking
        + 0.4 * abs(math.log2(own / 4))
        + 0.5 * math.log2(widest / schedule.vector)
        + 0.3 * abs(math.log2(tiling.threads / (128 if tiling.is_along else 512)))
        + 0.2 * math.log2(schedule.strips if tiling.is_along else 1)
        + idle
    )
