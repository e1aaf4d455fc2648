"""Which tiles turn an array on a device, the best guess first."""

from collections.abc import Iterator
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.transposed.tile import Plane
from kernelwright.metal.schedule import Transposed

_LINE_BYTES = 128
"""A side of a tile that reads and writes whole lines of the caches."""
_SIDES = (64, 32, 128, 16)
_LEAST_ELEMENTS = 1 << 14
"""Elements from which on memory, and not a launch, is what counts."""


def transposed_bytes(graph: Graph, schedule: Transposed) -> int:
    """Return the threadgroup memory that a graph's tiles take."""
    plane = Plane.of(graph, Signature.of(graph))
    return sum(tile.nbytes for tile in plane.tiles(schedule))


def transposed_schedules(graph: Graph, device: DeviceInfo) -> list[Transposed]:
    """Return schedules by tiles, none where no array lies across the outputs."""
    try:
        plane = Plane.of(graph, Signature.of(graph))
    except UnsupportedError:
        return []
    is_large = plane.row.extent * plane.column.extent * plane.plane.extent >= _LEAST_ELEMENTS
    if not plane.is_worth_tiles or not is_large:
        return []
    width = max(load.stored.itemsize for load in plane.turned)
    fitting = [s for s in _all(device) if _fits(plane, s, device)]
    return sorted(fitting, key=lambda s: _cost(plane, s, width))


def _all(device: DeviceInfo) -> Iterator[Transposed]:
    for rows, columns, vector, threads in product(_SIDES, _SIDES, (4, 2, 8, 1), (256, 128, 512)):
        is_whole = rows * columns % (threads * vector) == 0 and threads % max(rows, columns) == 0
        if is_whole and threads <= device.threads_per_threadgroup:
            yield Transposed(rows, columns, vector, threads)


def _fits(plane: Plane, schedule: Transposed, device: DeviceInfo) -> bool:
    nbytes = sum(tile.nbytes for tile in plane.tiles(schedule))
    return 2 * nbytes <= device.threadgroup_bytes


def _cost(plane: Plane, schedule: Transposed, width: int) -> tuple[float, ...]:
    """Order tiles by the places that they waste, and by how far they are from whole lines."""
    sides = ((plane.row, schedule.rows), (plane.column, schedule.columns))
    idle = 1.0
    for axis, side in sides:
        idle *= _taken(axis, side) / axis.extent
    short = sum(max(_LINE_BYTES // 2 / (side * width) - 1, 0.0) for _, side in sides)
    long = sum(max(side * width / _LINE_BYTES - 1, 0.0) for _, side in sides)
    uneven = sum(axis.extent % schedule.vector != 0 for axis, _ in sides)
    return (
        4 * (idle - 1) + 2 * short + 0.5 * long + 0.1 * uneven,
        abs(schedule.vector * width - 8) / 8,
        abs(schedule.threads - 256),
    )


def _taken(axis: Axis, side: int) -> int:
    return -(-axis.extent // side) * side
