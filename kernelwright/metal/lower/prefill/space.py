"""Which schedules an attention of many queries has on a device, the best guess first."""

import math
from dataclasses import dataclass
from itertools import product

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.contraction import FEW_QUERIES
from kernelwright.metal.lower.attention.program import token_axes
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.prefill.kernel import prefill_tiles
from kernelwright.metal.lower.prefill.stage import PrefillStage
from kernelwright.metal.lower.prefill.tiles import PrefillTiles
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Prefill
from kernelwright.metal.target.gpu import gpu_of

MAXIMUM_KEPT = 176
"""Registers that a lane's parts of simdgroup matrices may take; our choice."""
_GROUPS_WANTED = 64
"""Threadgroups that keep every core of a GPU busy."""


def prefill_schedules(graph: Graph, device: DeviceInfo) -> tuple[Prefill, ...]:
    """Return every legal schedule, in the order in which to try them; none for few queries.

    Raises:
        UnsupportedError: the graph is no attention.
    """
    signature, tiles = prefill_tiles(graph, Prefill())
    if tiles.sizes.queries <= FEW_QUERIES:
        return ()
    # A kernel for any number of tokens has to be possible to be another one.
    fixings = (0, 1) if token_axes(graph) else (1,)
    every = product((1, 2, 4), (1, 2, 4, 8), (8, 16, 32, 64), fixings, (0, 1))
    found = [tiles.scheduled(Prefill(*chosen)) for chosen in every]
    legal = [t for t in found if _is_legal(signature, t, device)]
    taste = _ON_NVIDIA if gpu_of(device).vendor == "nvidia" else _ON_APPLE
    return tuple(t.schedule for t in sorted(legal, key=taste.strangeness))


def _is_legal(signature: Signature, tiles: PrefillTiles, device: DeviceInfo) -> bool:
    return (
        tiles.threads <= device.threads_per_threadgroup
        and tiles.threadgroup_bytes <= device.threadgroup_bytes
        and tiles.registers <= MAXIMUM_KEPT
        and (not tiles.schedule.ahead or _can_read_ahead(signature, tiles))
    )


def _can_read_ahead(signature: Signature, tiles: PrefillTiles) -> bool:
    return PrefillStage(signature, tiles, Writer(signature.scalars)).can_read_ahead


@dataclass(frozen=True)
class _Taste:
    """What one would write first for a kind of GPU; our choice, on CUDA after measurements."""

    rows: int
    ahead: int
    tile_bytes: int
    """Threadgroup memory with which enough threadgroups share a core."""

    def strangeness(self, tiles: PrefillTiles) -> float:
        """Measure the distance of a schedule from what one would write first."""
        schedule, size = tiles.schedule, tiles.sizes
        blocks = -(-size.queries // tiles.queries)
        lacking = max(math.log2(_GROUPS_WANTED / (blocks * size.batch * size.heads)), 0.0)
        wasted = blocks * tiles.queries / size.queries
        crowded = max(math.log2(tiles.threadgroup_bytes / self.tile_bytes), 0.0)
        return (
            0.3 * lacking
            + 1.0 * math.log2(wasted)
            + 1.0 * crowded
            # More rows read each key and value less often, and leave fewer registers.
            + 0.4 * abs(math.log2(schedule.rows / self.rows))
            + 0.3 * abs(math.log2(schedule.simdgroups / 4))
            + 0.4 * abs(math.log2(schedule.keys / 32))
            + 0.3 * abs(schedule.ahead - self.ahead)
            + (0.2 if schedule.fixed == tiles.has_edges else 0.0)
        )


_ON_APPLE = _Taste(rows=1, ahead=0, tile_bytes=16384)
_ON_NVIDIA = _Taste(rows=2, ahead=1, tile_bytes=32768)
"""A tensor core takes two rows of matrices at once."""
