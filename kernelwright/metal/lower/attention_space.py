"""Which schedules an attention has on a device, the best guess first."""

import math
from dataclasses import replace
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.attended import RESERVED_HERE, Attended
from kernelwright.metal.lower.attention_layout import Layout
from kernelwright.metal.lower.run import preferred_run
from kernelwright.metal.lower.signature import Signature
from kernelwright.metal.schedule import Attention

MAXIMUM_KEPT = 160
"""Registers that a lane's queries and results may take; our choice."""
SIMDGROUPS_WANTED = 4096
"""Simdgroups that fill a large GPU several times over; with fewer, keys are cut into chunks."""
SHORTEST_CHUNK = 256
"""Keys below which a chunk is not worth the second kernel."""


def attention_schedules(graph: Graph, device: DeviceInfo) -> tuple[Attention, ...]:
    """Return every legal schedule, in the order in which to try them.

    Raises:
        UnsupportedError: the graph is no attention, or its heads have no size that lanes share.
    """
    attended = Attended.of(graph, Signature.of(graph, RESERVED_HERE))
    rows = attended.sizes.rows
    together = {n for n in (1, 2, 4, 8) if rows % n == 0} | ({rows} if rows <= 8 else set())
    vector = preferred_run(device, attended.call.inputs[1].dtype.itemsize)
    found: list[Attention] = []
    for lanes, queries, simdgroups in product(
        (1, 2, 4, 8, 16, 32), sorted(together), (2, 4, 8, 16)
    ):
        for keys, chunks, fixed in product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (0, 1)):
            schedule = Attention(lanes, queries, simdgroups, keys, chunks, fixed, vector)
            if _is_legal(attended, schedule, device):
                found.append(schedule)
    if not found:
        size = attended.sizes
        raise UnsupportedError(
            f"no schedule keeps heads of {size.head} and {size.width} features in registers; "
            "leave the attention to MLX."
        )
    return tuple(sorted(found, key=lambda s: _strangeness(attended, s)))


def attention_layout(graph: Graph, schedule: Attention) -> Layout:
    """Return how a schedule divides a graph's attention."""
    return Layout.of(Attended.of(graph, Signature.of(graph, RESERVED_HERE)), schedule)


def _is_legal(attended: Attended, schedule: Attention, device: DeviceInfo) -> bool:
    try:
        layout = Layout.of(attended, schedule)
    except UnsupportedError:
        return False
    keys = attended.sizes.seen
    if schedule.fixed and layout.is_ragged:
        return False
    if schedule.chunks > 1 and (keys < schedule.chunks * SHORTEST_CHUNK):
        return False
    # More slots than keys leave lanes idle.
    if layout.stride > keys and schedule != _smallest(schedule):
        return False
    return (
        32 * schedule.simdgroups <= device.threads_per_threadgroup
        and layout.threadgroup_bytes <= device.threadgroup_bytes
        and layout.registers <= MAXIMUM_KEPT
        and layout.chunks == schedule.chunks
    )


def _smallest(schedule: Attention) -> Attention:
    return replace(schedule, simdgroups=2, keys=1, chunks=1)


def _strangeness(attended: Attended, schedule: Attention) -> float:
    """Measure the distance of a schedule from what one would write first."""
    size = attended.sizes
    itemsize = attended.call.inputs[1].dtype.itemsize
    # A lane should ask for 16 bytes of a key.
    wanted_lanes = min(max(size.head * itemsize // 16, 1), 32)
    blocks = size.groups * size.rows // schedule.queries
    simdgroups = blocks * schedule.simdgroups * schedule.chunks
    lacking = max(math.log2(SIMDGROUPS_WANTED / simdgroups), 0.0)
    # A second kernel costs a launch, however few the chunks.
    merging = 0.6 + 0.1 * math.log2(schedule.chunks) if schedule.chunks > 1 else 0.0
    return (
        1.0 * _apart(schedule.lanes, wanted_lanes)
        + 0.5 * _apart(schedule.queries, min(size.rows, 4))
        + 0.2 * _apart(schedule.simdgroups, 4)
        + 0.5 * _apart(schedule.keys, 4 if schedule.vector == 8 else 2)
        + 0.35 * lacking
        + merging
        # Asking whether a key is there took a third of the time and more on an H200.
        + 0.5 * (1 - schedule.fixed)
    )


def _apart(found: float, wanted: float) -> float:
    return abs(math.log2(found / wanted))
