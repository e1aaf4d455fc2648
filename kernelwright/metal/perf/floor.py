"""The least that a schedule can take on a chip, known before anything is lowered or compiled."""

import math

from kernelwright.ir.graph import Graph
from kernelwright.metal.family.classify import classify
from kernelwright.metal.perf.profile import ChipProfile
from kernelwright.metal.schedule import Columnwise, Rowwise, Scan, Schedule, Split

_UNHIDDEN = 4.0
"""A read's latency, in what a simdgroup sees of it where others fill the gaps."""


def floor_us(graph: Graph, schedule: Schedule, profile: ChipProfile) -> float:
    """Estimate the time that a schedule cannot go below: bytes, launches, and waiting for reads.

    Lanes that walk along a row wait for memory at every step. Where a device's threads are too few
    to hide that, it is all that counts. Families whose lanes do not share rows wait for nothing.
    """
    family = classify(graph)
    moved = sum(t.nbytes for t in (*graph.input_types, *graph.output_types))
    memory_us = moved / (profile.bandwidth_gb_s * 1e3 * profile.bandwidth_efficiency)
    lanes, width = _team(schedule)
    if not lanes:
        return max(memory_us, profile.least_wait_us) + profile.launch_us
    steps = math.ceil(family.row_length / (lanes * width))
    waves = math.ceil(family.row_count * lanes / (profile.cores * profile.core.threads))
    waiting_us = steps * waves * _UNHIDDEN * profile.memory_latency_us
    launches = 2 if isinstance(schedule, Split) else 1
    busy_us = max(memory_us, waiting_us, launches * profile.least_wait_us)
    return busy_us + launches * profile.launch_us


def _team(schedule: Schedule) -> tuple[int, int]:
    """Return the lanes that share a row, none where that is not how it works, and their width."""
    match schedule:
        case Rowwise() | Scan():
            return schedule.lanes, schedule.vector
        case Columnwise():
            return schedule.strips, 1
        case Split():
            return schedule.chunks * schedule.lanes, schedule.vector
    return 0, 1
