"""Which rows a thread computes together because they read the same, as windows do."""

from collections.abc import Sequence

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel_ir.expression import Load, walk
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.pointwise.element import Piece, element_stores
from kernelwright.metal.lower.program.signature import Signature

_MOST_SHARING = 64
"""Rows of a plane up to which what they all read is worth holding for several of them."""


def sharing_rows(
    graph: Graph,
    signature: Signature,
    parts: Sequence[Piece],
    axes: tuple[Axis, ...],
    counts: Sequence[int],
) -> list[int]:
    """Return how many rows read less together than alone, as windows do that overlap.

    What a row reads wherever it stands does not count, caches have it, unless it is most of what
    is read and other for each plane.
    """
    whole = axes[-2].extent if len(axes) > 1 else 1
    if _are_pairs(graph, signature, parts, axes) or _reads_for_all_rows(
        graph, signature, parts, axes
    ):
        return [rows for rows in counts if whole % rows == 0]
    # Rows that are all of an axis leave none behind by which to tell what hangs on it.
    possible = [rows for rows in counts if whole % rows == 0 and whole > rows]

    def read(together: int) -> set[tuple[str, Index]]:
        stores = element_stores(graph, signature, parts, axes, together)
        loads = (t for t in walk([s.value for s in stores]) if isinstance(t, Load))
        name = axes[-2].name
        return {(t.array, t.offset) for t in loads if any(a.name == name for a in t.axes)}

    alone = len(read(1)) if possible else 0
    return [rows for rows in possible if len(read(rows)) < rows * alone]


def _reads_for_all_rows(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether most runs that a thread reads are those of every row of its plane."""
    if len(axes) < 3 or axes[-2].extent > _MOST_SHARING:
        return False
    plane, row, inner = axes
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    loads = {(t.array, t.offset) for t in walk(values) if isinstance(t, Load)}
    runs = [offset.axes for _, offset in loads if inner in offset.axes]
    shared = [found for found in runs if row not in found and plane in found]
    return 2 * len(shared) > len(runs)


def _are_pairs(
    graph: Graph, signature: Signature, parts: Sequence[Piece], axes: tuple[Axis, ...]
) -> bool:
    """Say whether an element is made of what its row and what its column have, each many times.

    Caches hold all of that; reading it from there is then most of what a thread does.
    """
    if len(axes) < 2:
        return False
    row, inner = axes[-2:]
    values = [s.value for s in element_stores(graph, signature, parts, axes)]
    reads = [t.offset.axes for t in walk(values) if isinstance(t, Load)]
    are_apart = not any(row in read and inner in read for read in reads)
    return are_apart and all(any(axis in read for read in reads) for axis in (row, inner))
