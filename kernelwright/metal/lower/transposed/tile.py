"""Which arrays lie across an elementwise kernel's outputs, and the tiles that bring them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Load, ReduceExpr, Store, always
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, unflatten
from kernelwright.metal.lower.emit.neighbour import PACKED
from kernelwright.metal.lower.pointwise.element import merged_extents
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.term.build import Builder
from kernelwright.metal.schedule import Transposed

_BANK_BYTES = 4
_SHORTEST = 8
"""Elements along both sides from which on a tile saves more than it costs."""


@dataclass(frozen=True)
class Tile:
    """A part of an array whose neighbours lie along `row`; a threadgroup holds it."""

    load: Load
    rows: int
    columns: int

    @property
    def stored(self) -> Dtype:
        """What an element is in memory, and in threadgroup memory."""
        return self.load.stored

    @property
    def pitch(self) -> int:
        """Elements from one row of the tile to the next, so that a column has all banks."""
        return self.columns + max(_BANK_BYTES // self.stored.itemsize, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of threadgroup memory."""
        return self.rows * self.pitch * self.stored.itemsize


@dataclass(frozen=True)
class Plane:
    """What an elementwise graph computes over planes of rows and columns.

    Outputs have their neighbours along `column`, some inputs theirs along `row`.
    """

    stores: tuple[Store, ...]
    plane: Axis
    row: Axis
    column: Axis
    turned: tuple[Load, ...]

    @classmethod
    def of(cls, graph: Graph, signature: Signature) -> "Plane":
        """Find the axis along which inputs lie.

        Raises:
            UnsupportedError: all of them lie as the outputs do, or nothing is elementwise.
        """
        extents = merged_extents(graph, signature)
        axes = [Axis(f"axis_{i}", n) for i, n in enumerate(extents)]
        stores = _stores(graph, signature, extents, [Index.of(a) for a in axes])
        loads = [t for t in always([s.value for s in stores]) if isinstance(t, Load)]
        sides = [a for a in axes[:-1] if any(_is_turned(t, a, axes[-1]) for t in loads)]
        if not sides:
            raise UnsupportedError(
                "all arrays have their neighbours where the outputs have them; use elementwise."
            )
        side = max(sides, key=lambda a: a.extent)
        return cls._over(graph, signature, extents, axes.index(side))

    @classmethod
    def _over(
        cls, graph: Graph, signature: Signature, extents: Sequence[int], side: int
    ) -> "Plane":
        others = [n for i, n in enumerate(extents) if i not in (side, len(extents) - 1)]
        plane = Axis("plane", math.prod(others))
        row, column = Axis("row", extents[side]), Axis("column", extents[-1])
        places = list(unflatten(Index.of(plane), others)) if others else []
        places.insert(side, Index.of(row))
        stores = _stores(graph, signature, extents, [*places, Index.of(column)])
        loads = [t for t in always([s.value for s in stores]) if isinstance(t, Load)]
        turned = {(t.array, t.offset): t for t in loads if _is_turned(t, row, column)}
        return cls(tuple(stores), plane, row, column, tuple(turned.values()))

    def tiles(self, schedule: Transposed) -> tuple[Tile, ...]:
        """Return the tile of every array that lies along the rows."""
        return tuple(Tile(load, schedule.rows, schedule.columns) for load in self.turned)

    @property
    def is_worth_tiles(self) -> bool:
        """Say whether both sides are long enough."""
        return min(self.row.extent, self.column.extent) >= _SHORTEST


def _stores(
    graph: Graph, signature: Signature, extents: Sequence[int], places: Sequence[Index]
) -> list[Store]:
    """Return what the elements of all outputs are at some places.

    Raises:
        UnsupportedError: an element needs a whole row.
    """
    builder = Builder(graph, signature.arrays, spells_out=True)
    place, stores = flatten(places, extents), []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    for term in always([s.value for s in stores]):
        if isinstance(term, ReduceExpr):
            raise UnsupportedError(f"a {term.reducer} is no elementwise operation.")
    return stores


def _is_turned(load: Load, row: Axis, column: Axis) -> bool:
    """Say whether the neighbours of what is read lie along the rows."""
    if load.places or load.stored not in PACKED:
        return False
    across = load.offset.coefficient(column)
    return load.offset.coefficient(row) == 1 and across is not None and across > 1
