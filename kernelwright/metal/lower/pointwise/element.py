"""What each element of an elementwise kernel's outputs is, and over which axes they are counted."""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call
from kernelwright.metal.kernel_ir.expression import (
    IndexValue,
    Load,
    ReduceExpr,
    Store,
    Switch,
    walk,
)
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, moved, unflatten
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.term.build import Builder

_AXIS_NAMES = (("index",), ("row", "column"), ("plane", "row", "column"))


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements along the innermost axis for all of which every choice has the same arm."""

    first: int
    stop: int

    @property
    def extent(self) -> int:
        """Number of elements."""
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an output that one store writes, beginning at `start` along `axis`."""

    position: int
    value: ValueId
    shape: tuple[int, ...]
    """The part's own shape."""
    whole: tuple[int, ...]
    """The output's shape, or that of the same elements before a reshape."""
    axis: int = 0
    start: int = 0
    is_window: bool = False
    """True where `value` is the whole output, read from `start` on."""


def pieces(graph: Graph, outputs: Sequence[int]) -> tuple[Piece, ...]:
    """Return what the stores of a kernel write.

    Outputs that concatenate equal parts are written part by part, so that each thread computes
    one element of every part and shares what they have in common.
    """
    parts = tuple(p for position in outputs for p in _parts(graph, position))
    if len({p.shape for p in parts}) == 1:
        return parts
    return tuple(_whole(graph, position) for position in outputs)


def split_at_choices(
    graph: Graph, signature: Signature, parts: tuple[Piece, ...]
) -> tuple[Piece, ...]:
    """Return the parts cut where a choice changes its arm, if that makes equal parts."""
    shape = parts[0].shape
    if any(p.shape != shape or p.whole != shape for p in parts):
        return parts
    axes = tuple(Axis(f"axis_{i}", n) for i, n in enumerate(shape))
    for term in walk(s.value for s in element_stores(graph, signature, parts, axes)):
        if not isinstance(term, Switch):
            continue
        for number, axis in enumerate(axes):
            step = term.edges[0]
            stops = tuple(range(step, axis.extent, step))
            if term.place == Index.of(axis) and term.edges == stops and axis.extent % step == 0:
                return tuple(w for p in parts for w in _windows(p, number, step))
    return parts


def _windows(piece: Piece, axis: int, step: int) -> tuple[Piece, ...]:
    shape = tuple(step if i == axis else n for i, n in enumerate(piece.shape))
    starts = range(0, piece.shape[axis], step)
    return tuple(
        replace(piece, shape=shape, axis=axis, start=start, is_window=True) for start in starts
    )


def _whole(graph: Graph, position: int) -> Piece:
    value = graph.outputs[position]
    shape = graph.types[value].shape
    return Piece(position, value, shape, shape)


def _producer(graph: Graph, value: ValueId) -> Node | None:
    index = graph.producer_of.get(value)
    return None if index is None else graph.nodes[index]


def _parts(graph: Graph, position: int) -> list[Piece]:
    node = _producer(graph, graph.outputs[position])
    while node is not None and node.op == "reshape":
        node = _producer(graph, node.inputs[0])
    if node is None or node.op != "concatenate":
        return [_whole(graph, position)]
    shape = graph.types[node.outputs[0]].shape
    axis, start = Call.of(graph, node).integer("axis"), 0
    parts: list[Piece] = []
    for part in node.inputs:
        parts.append(Piece(position, part, graph.types[part].shape, shape, axis, start))
        start += graph.types[part].shape[axis]
    return parts


def domain(graph: Graph, signature: Signature, parts: Sequence[Piece]) -> tuple[Axis, ...]:
    """Return the fewest axes over which every access is written without division, outermost first.

    Neighbouring axes become one where all accesses step through them as through one axis.
    """
    extents = _merged(graph, signature, parts)
    if len(extents) > 3:
        extents = [math.prod(extents[:-2]), *extents[-2:]]
    extents = extents or [1]
    return tuple(Axis(*pair) for pair in zip(_AXIS_NAMES[len(extents) - 1], extents, strict=True))


def merged_extents(graph: Graph, signature: Signature) -> list[int]:
    """Return the extents of the fewest axes over which every access of all outputs is a sum.

    Raises:
        UnsupportedError: an element needs a whole row, or the outputs differ in size.
    """
    if len({t.size for t in graph.output_types}) > 1:
        raise UnsupportedError("outputs of several sizes share no threads; use elementwise.")
    parts = [_whole(graph, position) for position in range(len(graph.outputs))]
    return _merged(graph, signature, parts) or [1]


def _merged(graph: Graph, signature: Signature, parts: Sequence[Piece]) -> list[int]:
    shape = parts[0].shape
    axes = tuple(Axis(f"axis_{i}", n) for i, n in enumerate(shape) if n > 1)
    stores = element_stores(graph, signature, parts, axes)
    offsets = [nested for s in stores for o in offsets_of(s) for nested in o.indices()]
    extents: list[int] = []
    for position, axis in enumerate(axes):
        if extents and all(_step_as_one(o, axes[position - 1], axis) for o in offsets):
            extents[-1] *= axis.extent
        else:
            extents.append(axis.extent)
    return extents


def offsets_of(store: Store, known: Container[int] = ()) -> list[Index]:
    """Return where a store and its terms stand; what a variable holds stands nowhere any more."""
    offsets = [store.offset]
    for term in walk([store.value], known):
        if term.number in known:
            continue
        match term:
            case Load():
                offsets.append(term.offset)
            case IndexValue():
                offsets.append(term.index)
            case Switch():
                offsets.append(term.place)
    return offsets


def _step_as_one(offset: Index, outer: Axis, inner: Axis) -> bool:
    factors = dict(offset.terms)
    return factors.get(outer, 0) == factors.get(inner, 0) * inner.extent


def folded(axes: tuple[Axis, ...], rows: int) -> tuple[Axis, ...]:
    """Return axes of which the second innermost counts so many rows as one.

    Raises:
        UnsupportedError: there is no such axis, or they do not divide it.
    """
    if rows == 1:
        return axes
    if len(axes) < 2 or axes[-2].extent % rows:
        found = axes[-2].extent if len(axes) > 1 else 1
        raise UnsupportedError(f"{rows} rows a thread do not divide {found} rows; use rows=1.")
    return (*axes[:-2], Axis(axes[-2].name, axes[-2].extent // rows), axes[-1])


def element_stores(
    graph: Graph,
    signature: Signature,
    parts: Sequence[Piece],
    axes: tuple[Axis, ...],
    rows: int = 1,
    segment: Segment | None = None,
) -> list[Store]:
    """Return what the stores of some parts write, over axes that count a part's elements.

    With several rows, over the folded axes: each part once for every row. With a segment, only
    what lies in it; its places count from its beginning.

    Raises:
        UnsupportedError: an element needs a whole row, or the rows are not divided.
    """
    builder = Builder(graph, signature.arrays, spells_out=True)
    stepped = folded(axes, rows)
    places = [Index.of(a) for a in stepped]
    if segment is not None:
        places[-1] = Index.of(Axis(stepped[-1].name, segment.extent)) + segment.first
    stores = []
    for row, piece in product(range(rows), parts):
        if rows > 1:
            places[-2] = Index.of(stepped[-2]) * rows + row
        place = flatten(places, [a.extent for a in axes])
        name, type_ = signature.outputs[piece.position]
        coordinates = unflatten(place, piece.shape)
        outer = moved(coordinates, piece.axis, piece.start)
        value = builder.element(piece.value, outer if piece.is_window else coordinates)
        stores.append(Store(name, flatten(outer, piece.whole), value, type_.dtype))
    for term in walk([s.value for s in stores]):
        if isinstance(term, ReduceExpr):
            raise UnsupportedError(f"a {term.reducer} is no elementwise operation.")
    return stores
