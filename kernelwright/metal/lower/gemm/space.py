"""Which schedules a product of many rows has on a device, the best guess first."""

import math
from itertools import product

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.gemm.kernel import Tiles
from kernelwright.metal.lower.gemv.terms import RESERVED_HERE
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Matmul

MAXIMUM_KEPT = 96
"""Registers that a lane's parts of simdgroup matrices may take; our choice."""
GROUPS_WANTED = 64
"""Threadgroups that keep every core of a GPU busy."""


def matmul_schedules(graph: Graph, device: DeviceInfo) -> tuple[Matmul, ...]:
    """Return every legal schedule, in the order in which to try them.

    Raises:
        UnsupportedError: the graph is no matrix product.
    """
    tiles = matmul_tiles(graph, Matmul())
    every = product((1, 2, 4), (1, 2, 4), (1, 2, 4), (16, 32))
    found = [tiles.scheduled(Matmul(*chosen)) for chosen in every]
    legal = [t for t in found if _is_legal(t, device)]
    legal.sort(key=_strangeness)
    return tuple(t.schedule for t in legal)


def matmul_tiles(graph: Graph, schedule: Matmul) -> Tiles:
    """Return how a schedule divides a graph's products."""
    return Tiles.of(graph, Signature.of(graph, RESERVED_HERE), schedule)


def _is_legal(tiles: Tiles, device: DeviceInfo) -> bool:
    return (
        tiles.threads <= device.threads_per_threadgroup
        and tiles.threadgroup_bytes <= device.threadgroup_bytes
        and tiles.registers <= MAXIMUM_KEPT
    )


def _strangeness(tiles: Tiles) -> float:
    """Measure the distance of a schedule from what one would write first."""
    schedule, dense = tiles.schedule, tiles.dense
    rows = -(-dense.tokens // tiles.rows)
    columns = -(-dense.column.extent // tiles.columns)
    lacking = max(math.log2(GROUPS_WANTED / (rows * columns * dense.matrices)), 0.0)
    wasted = rows * tiles.rows / dense.tokens * columns * tiles.columns / dense.column.extent
    return (
        0.3 * lacking
        + 2.0 * math.log2(wasted)
        + 0.3 * abs(math.log2(schedule.rows * schedule.columns / 4))
        + 0.2 * abs(math.log2(schedule.simdgroups / 4))
        + 0.3 * abs(math.log2(schedule.depth / 16))
    )
