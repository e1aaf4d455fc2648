"""Which ways there are to hold short rows in threadgroup memory."""

from dataclasses import replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.emit.width import preferred_width
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import MAXIMUM_KEPT, WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.rowwise.footprint import row_footprint
from kernelwright.metal.lower.rowwise.stores import row_count
from kernelwright.metal.lower.rowwise.tiled import Tiles, tile_rows
from kernelwright.metal.schedule import Rowwise, Schedule, Tiled

LONGEST_TILED, FEWEST_TILED = 512, 1024
"""Elements up to which a row is held in threadgroup memory, and rows from which on it pays."""
_FEW_KEPT = 64


def tiled_schedules(
    graph: Graph, columns: int, device: DeviceInfo, *, strided: bool
) -> list[Schedule]:
    """Return ways to hold short rows in threadgroup memory, where lanes would read them badly."""
    rows, run = row_count(graph), preferred_width(graph, device)
    is_even = columns % run == 0 and columns >= run
    if not 2 < columns <= LONGEST_TILED or rows < FEWEST_TILED or (is_even and not strided):
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
        taken = tiled_footprint(graph, schedule)
    except UnsupportedError:
        return False
    if schedule.rows * schedule.lanes > device.threads_per_threadgroup:
        return False
    fits = taken.threadgroup_bytes <= device.threadgroup_bytes
    return fits and (
        not schedule.cached
        or WORKING_REGISTERS < taken.registers <= MAXIMUM_KEPT + WORKING_REGISTERS
    )


def tiled_footprint(graph: Graph, schedule: Tiled) -> Footprint:
    """Estimate what a kernel takes on chip that holds its rows in threadgroup memory."""
    tiles = Tiles.of(graph, Signature.of(graph), schedule)
    rows = Rowwise(schedule.lanes, schedule.rows, 1, cached=schedule.cached)
    return replace(row_footprint(list(tiles.stores), rows), threadgroup_bytes=tiles.nbytes)
