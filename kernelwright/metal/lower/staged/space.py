"""Which ways there are to compute few long reductions in stages."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.emit.width import preferred_width
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import MANY_THREADS
from kernelwright.metal.lower.rowwise.stores import row_count
from kernelwright.metal.lower.staged.cut import part_counts
from kernelwright.metal.lower.staged.program import lower_staged
from kernelwright.metal.schedule import Schedule, Staged

_WORTH_STAGES, _ROWS_IN_STAGES = 1 << 20, 512
"""From how many elements on stages pay, and up to how many rows whose elements are neighbours."""
_LEAST_PART = 1024
"""Elements of a part that are worth a threadgroup."""


def staged_schedules(
    graph: Graph, columns: int, device: DeviceInfo, *, strided: bool
) -> list[Schedule]:
    """Return ways to compute few long reductions in stages, and what depends on them."""
    rows = row_count(graph)
    if rows * columns < _WORTH_STAGES or rows > (MANY_THREADS if strided else _ROWS_IN_STAGES):
        return []
    run = preferred_width(graph, device)
    if strided:
        wanted = [MANY_THREADS * run // (2 * rows * strips) for strips in (8, 4)]
        pairs = [(max(n, 2), s) for n, s in zip(wanted, (8, 4), strict=True)]
        pairs += [(max(wanted[0] // 4, 2), 8), (max(wanted[0] * 4, 2), 8)]
    else:
        counts = (n for n in (2048, 8192, 32768, 1024) if rows * columns >= _LEAST_PART * n)
        pairs = [(max(n // rows, 2), 8) for n in counts]
    signature, found = Signature.of(graph), list[Schedule]()
    for wanted_parts, strips in pairs:
        try:
            for parts in part_counts(graph, [wanted_parts]):
                schedule = Staged(parts, 256, strips, run)
                lower_staged(graph, signature, schedule)
                found.append(schedule)
        except UnsupportedError:
            continue
    return list(dict.fromkeys(found))
