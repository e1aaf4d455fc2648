"""Which schedules an attention has on a device, the best guess first."""

import math
from dataclasses import replace
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.attention.layout import Layout
from kernelwright.metal.lower.attention.terms import RESERVED_HERE, Attended
from kernelwright.metal.lower.emit.run import preferred_run
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Attention
from kernelwright.metal.target.gpu import Gpu, gpu_of

MAXIMUM_KEPT = 160
"""Registers that a lane's queries and results may take; our choice."""
SIMDGROUPS_WANTED = 4096
"""Simdgroups that fill a large GPU several times over; with fewer, keys are cut into chunks."""
SHORTEST_CHUNK = 256
"""Keys below which a chunk is not worth the second kernel."""
RESIDENT_WANTED = 16
"""Simdgroups of a core that hide each other's waits: four for each of its schedulers."""
IN_FLIGHT_WANTED = 1 << 15
"""Bytes that a core should have asked for: an H200's 4.8 TB/s for 900 ns, over 132 cores."""
_REGISTERS, _MOST_REGISTERS = 1 << 16, 255
"""Of an NVIDIA core and of a thread (CUDA C++ Programming Guide, technical specifications)."""
_OTHER_REGISTERS = 24
"""What a lane takes for places and sums besides queries, results and what it reads."""


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
    gpu = gpu_of(device)
    return tuple(sorted(found, key=lambda s: _strangeness(attended, s, gpu)))


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


def _strangeness(attended: Attended, schedule: Attention, gpu: Gpu) -> float:
    """Measure the distance of a schedule from what one would write first."""
    size = attended.sizes
    blocks = size.groups * size.rows // schedule.queries
    simdgroups = blocks * schedule.simdgroups * schedule.chunks
    # A second kernel costs a launch, however few the chunks.
    merging = 0.6 + 0.1 * math.log2(schedule.chunks) if schedule.chunks > 1 else 0.0
    reading = _waiting if gpu.vendor == "nvidia" else _unlike
    return (
        reading(attended, schedule)
        + 0.5 * _apart(schedule.queries, min(size.rows, 4))
        + 0.2 * _apart(schedule.simdgroups, 4)
        + 0.35 * _lacking(simdgroups, SIMDGROUPS_WANTED)
        + merging
        # Asking whether a key is there took a third of the time and more on an H200.
        + 0.5 * (1 - schedule.fixed)
    )


def _unlike(attended: Attended, schedule: Attention) -> float:
    """Measure the distance from lanes that ask for 16 bytes of a key, two keys at a time."""
    return 1.0 * _apart(schedule.lanes, _wanted_lanes(attended)) + 0.5 * _apart(schedule.keys, 2)


def _waiting(attended: Attended, schedule: Attention) -> float:
    """Measure how much of an NVIDIA core waits, for want of simdgroups or of bytes on their way."""
    layout = Layout.of(attended, schedule)
    threads = 32 * schedule.simdgroups
    wanted, limit = _registers(layout), min(_REGISTERS // threads, _MOST_REGISTERS)
    resident = _REGISTERS // (min(wanted, limit) * threads) * schedule.simdgroups
    in_flight = resident * 32 * layout.bytes_ahead
    return (
        1.0 * _lacking(limit, wanted)
        + 0.6 * _lacking(resident, RESIDENT_WANTED)
        + 0.5 * _lacking(in_flight, IN_FLIGHT_WANTED)
        # Other threadgroups' queries read the same keys again.
        + 0.3 * _lacking(schedule.queries, min(attended.sizes.rows, 4))
        + 0.2 * _apart(schedule.lanes, _wanted_lanes(attended))
        + 0.1 * _apart(schedule.keys, 4)
    )


def _registers(layout: Layout) -> int:
    """Estimate all registers of a lane, as CUDA's compiler hands them out.

    What is read takes half as much again where it is converted.
    """
    features = layout.attended.sizes.head + layout.attended.sizes.width
    kept = layout.schedule.queries * features // layout.schedule.lanes
    return kept + 3 * layout.bytes_ahead // 8 + _OTHER_REGISTERS


def _wanted_lanes(attended: Attended) -> int:
    """Return how many lanes share a key where each asks for 16 bytes of it."""
    itemsize = attended.call.inputs[1].dtype.itemsize
    return min(max(attended.sizes.head * itemsize // 16, 1), 32)


def _lacking(found: int, wanted: int) -> float:
    return max(math.log2(wanted / found), 0.0)


def _apart(found: float, wanted: float) -> float:
    return abs(math.log2(found / wanted))
