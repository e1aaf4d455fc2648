"""Which elementwise schedules a graph has on a device, the best guess first."""

import math
from collections.abc import Iterator, Sequence

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.concatenated_outputs import stacked_axis
from kernelwright.metal.kernel_ir.expression import Load, always, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.width import legal_widths, preferred_width
from kernelwright.metal.lower.pointwise.element import (
    Piece,
    domain,
    element_stores,
    pieces,
    split_at_choices,
)
from kernelwright.metal.lower.pointwise.kernel import is_even
from kernelwright.metal.lower.pointwise.shared_row import sharing_rows
from kernelwright.metal.lower.pointwise.stacked import Layer, stacked_layers
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import BYTES_IN_FLIGHT
from kernelwright.metal.schedule import Elementwise

UNROLLS = (1, 2, 4)
"""Runs that a thread of an elementwise kernel may take."""
_ROWS = (4, 2, 8)
"""Rows that a thread computes together where neighbours read the same, as windows do."""


def elementwise_schedules(graph: Graph, device: DeviceInfo) -> Iterator[Elementwise]:
    """Yield every elementwise schedule of a graph, in the order in which to try them."""
    signature = Signature.of(graph)
    if (stacked := stacked_axis(graph)) is not None:
        yield from _stacked(stacked_layers(graph, signature, stacked), device)
        return
    parts = split_at_choices(graph, signature, pieces(graph, [0]))
    axes = domain(graph, signature, parts)
    width = max(t.dtype.itemsize for t in graph.output_types)
    total = math.prod(a.extent for a in axes)
    # 16 bytes a thread fill a memory transaction; a small array needs the threads more.
    best = 1 if total < 1 << 16 else min(16 // width, preferred_width(graph, device))
    inner = axes[-1].extent
    best = math.gcd(best, inner)
    vectors = [v for v in legal_widths(graph) if v <= inner]
    vectors.sort(key=lambda v: (inner % v != 0, abs(math.log2(v / best))))
    guarded = _guards_reads(graph, signature, parts, axes)
    unrolls = (1,) if guarded or best == 1 else UNROLLS
    pairs = [(v, u) for v in vectors for u in unrolls if u == 1 or v > 1]
    # The plain run first: it is the simplest, and the only one that serves other sizes.
    pairs.sort(key=lambda p: (p != (vectors[0], 1), inner % p[0] != 0, _shortfall(p, width, best)))
    rows = sharing_rows(graph, signature, parts, axes, _ROWS)
    below = [(v, 1, r) for v in vectors[:2] for r in rows]
    runs = [(*pairs[0], 1), *below, *((v, u, 1) for v, u in pairs[1:])]
    for threads in (256, 128, 512, 64, 1024):
        if threads > device.threads_per_threadgroup:
            continue
        for vector, unroll, together in runs:
            schedule = Elementwise(vector, threads, unroll, together)
            if unroll == 1 or is_even(axes, schedule):
                yield schedule


def _guards_reads(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether an element is read only where a choice says so, as in padding.

    Several runs a thread are not tried then: with two of them, NVIDIA's assembler (CUDA 13.0) moves
    such a read above the question whether it lies inside its array.
    """
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    certain = {t.number for t in always(values)}
    return any(isinstance(t, Load) and t.number not in certain for t in walk(values))


def _stacked(layers: list[Layer] | None, device: DeviceInfo) -> Iterator[Elementwise]:
    """Yield schedules of outputs that stand on top of each other, wide runs first."""
    columns = layers[0].axes[2].extent if layers else 1
    for threads in (256, 128, 512, 64):
        for vector in (4, 2, 1):
            if columns % vector == 0 and threads <= device.threads_per_threadgroup:
                yield Elementwise(vector, threads)


def _shortfall(pair: tuple[int, int], width: int, best: int) -> float:
    """Return how far a thread's bytes in flight are from what hides the memory's latency."""
    wanted = width if best == 1 else BYTES_IN_FLIGHT
    return abs(math.log2(pair[0] * pair[1] * width / wanted))
