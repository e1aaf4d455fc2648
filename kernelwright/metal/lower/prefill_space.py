"""Which schedules an attention of many queries has on a device, the best guess first."""

import math
from itertools import product

from kernelwright.ir.fast_attention import FEW_QUERIES
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.attention_program import token_axes
from kernelwright.metal.lower.prefill import prefill_tiles
from kernelwright.metal.lower.prefill_tiles import PrefillTiles
from kernelwright.metal.schedule import Prefill

MAXIMUM_KEPT = 176
"""Registers that a lane's parts of simdgroup matrices may take; our choice."""
_GROUPS_WANTED = 64
"""Threadgroups that keep every core of a GPU busy."""
_TILE_BYTES = 16384
"""Threadgroup memory with which two threadgroups share a core of Apple's GPUs; our choice."""


def prefill_schedules(graph: Graph, device: DeviceInfo) -> tuple[Prefill, ...]:
    """Return every legal schedule, in the order in which to try them; none for few queries.

    Raises:
        UnsupportedError: the graph is no attention.
    """
    _, tiles = prefill_tiles(graph, Prefill())
    if tiles.sizes.queries <= FEW_QUERIES:
        return ()
    # A kernel for any number of tokens has to be possible to be another one.
    fixings = (0, 1) if token_axes(graph) else (1,)
    every = product((1, 2, 4), (1, 2, 4, 8), (8, 16, 32, 64), fixings)
    found = [tiles.scheduled(Prefill(*chosen)) for chosen in every]
    legal = [t for t in found if _is_legal(t, device)]
    return tuple(t.schedule for t in sorted(legal, key=_strangeness))


def _is_legal(tiles: PrefillTiles, device: DeviceInfo) -> bool:
    return (
        tiles.threads <= device.threads_per_threadgroup
        and tiles.threadgroup_bytes <= device.threadgroup_bytes
        and tiles.registers <= MAXIMUM_KEPT
    )


def _strangeness(tiles: PrefillTiles) -> float:
    """Measure the distance of a schedule from what one would write first."""
    schedule, size = tiles.schedule, tiles.sizes
    blocks = -(-size.queries // tiles.queries)
    lacking = max(math.log2(_GROUPS_WANTED / (blocks * size.batch * size.heads)), 0.0)
    wasted = blocks * tiles.queries / size.queries
    crowded = max(math.log2(tiles.threadgroup_bytes / _TILE_BYTES), 0.0)
    return (
        0.3 * lacking
        + 1.0 * math.log2(wasted)
        + 1.0 * crowded
        # More rows read each key and value less often, and leave fewer registers.
        + 0.4 * abs(math.log2(schedule.rows))
        + 0.3 * abs(math.log2(schedule.simdgroups / 4))
        + 0.4 * abs(math.log2(schedule.keys / 32))
        + (0.2 if schedule.fixed == tiles.has_edges else 0.0)
    )
