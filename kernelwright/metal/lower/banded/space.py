"""Which bands of rows to try, what keeps a GPU's memory busy first."""

import math
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.plane import plane_of
from kernelwright.metal.lower.banded.program import banded_footprint, lower_banded
from kernelwright.metal.lower.emit.neighbour import WIDTHS
from kernelwright.metal.lower.emit.run import preferred_run
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Banded

_MOST_KEPT = 96
"""Registers that a lane's columns may take: there is no other way to read a matrix once."""
_THREADS = 256
"""Threads of a threadgroup that several rows share."""
_WANTED_THREADS = 1 << 18
"""Threads that keep the largest GPU's memory busy with one run each."""
_LEAST_DEPTH, _FEW_KEPT = 8, 32


def banded_schedules(graph: Graph, device: DeviceInfo) -> list[Banded]:
    """Return every legal way to walk over a matrix in bands, in the order in which to try them.

    Raises:
        UnsupportedError: the graph reduces other things than rows and columns of one matrix.
    """
    plane = plane_of(graph)
    if plane is None:
        raise UnsupportedError("no matrix has its rows and its columns reduced here.")
    best = preferred_run(device, max(t.dtype.itemsize for t in graph.input_types))
    vectors = [v for v in (*reversed(WIDTHS), 1) if plane.columns % v == 0 and v <= best]
    rows = plane.planes * plane.rows
    ranked: list[tuple[float, Banded]] = []
    for vector, lanes in product(vectors, (32, 64, 128, 256, 512, 1024)):
        if lanes > device.threads_per_threadgroup or lanes * vector >= 2 * max(plane.columns, 32):
            continue
        teams = _THREADS // 32 if lanes == 32 else 1
        for depth in (8, 16, 4, 32):
            schedule = Banded(lanes, teams, depth, vector)
            kept, shared = banded_footprint(graph, schedule)
            fits = kept <= _MOST_KEPT and shared <= device.threadgroup_bytes
            if fits and teams * depth <= plane.rows:
                threads = rows * lanes // depth
                strange = _strangeness(schedule, best, plane.columns, kept, threads)
                ranked.append((strange, schedule))
    ranked.sort(key=lambda pair: pair[0])
    found = [schedule for _, schedule in ranked]
    if found:
        lower_banded(graph, Signature.of(graph), found[0])
    return found


def _strangeness(schedule: Banded, best: int, columns: int, kept: int, threads: int) -> float:
    """Order schedules by what leaves memory idle: narrow reads, few threads, idle lanes."""
    narrow = math.log2(best / schedule.vector)
    idle = max(math.log2(_WANTED_THREADS / max(threads, 1)), 0.0)
    # Columns of a band are written and read again, for each of its rows once.
    again = 8 / (schedule.depth * schedule.teams)
    turn = schedule.lanes * schedule.vector
    waste = -(-columns // turn) * turn / columns - 1
    crowded = max(math.log2(max(kept, 1) / _FEW_KEPT), 0.0)
    waits = 0.0 if schedule.lanes == 32 else 0.25
    return 2 * narrow + idle + again + 4 * waste + crowded + waits
