"""What every element of every output of a row-wise graph is, over rows and columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.analysis.row_independence import views_of_shape
from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.metal.family.plain_rows import plain_rows
from kernelwright.metal.family.plane import plane_of
from kernelwright.metal.family.top_k import MAX_RANKED, RANKED, is_ranked, ranked_shape
from kernelwright.metal.kernel_ir.expression import Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, unflatten
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.rowwise.parts import (
    PartBuilder,
    Parts,
    is_straight,
    parts_of,
    places_of,
)
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder


def row_count(graph: Graph) -> int:
    """Return the rows over which a graph's reductions run.

    Raises:
        UnsupportedError: they run over different ones, or there is none.
    """
    counts: set[int] = set()
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.REDUCTION:
            type_ = graph.types[node.outputs[0]]
            source = graph.types[node.inputs[0]]
            same = node.op == "softmax"
            counts.add(source.size // source.shape[-1] if same else type_.size)
        if node.op in RANKED:
            shape = graph.types[node.inputs[0]].shape
            counts.add(math.prod(shape[:-1]))
    if not counts and (plain := plain_rows(graph)):
        shape, axes = plain
        return math.prod(shape[: axes[0]])
    # A square matrix has as many columns as rows.
    if len(counts) != 1 or plane_of(graph) is not None:
        raise UnsupportedError(
            "a row-wise kernel reduces over one set of rows, found several or none; split the "
            "region there."
        )
    return counts.pop()


def row_stores(
    graph: Graph, signature: Signature, rows: int, row: Index | None = None
) -> list[Store]:
    """Return what every element of every output is, over a row axis and a column axis.

    `row` is where a row stands among `rows`, an axis of its own unless told.
    """
    if row is not None and row != Index.of(Axis("row", rows)):
        return _stores(Builder(graph, signature.arrays), signature, rows, row)
    parts = _parts(graph, rows)
    if parts is not None:
        try:
            stores = _part_stores(
                PartBuilder(graph, signature.arrays, parts=parts), signature, rows
            )
        except UnsupportedError:
            # An output that runs across the rows has no parts of theirs.
            stores = []
        if stores and is_straight(stores):
            return stores
    return _stores(Builder(graph, signature.arrays), signature, rows, Index.of(Axis("row", rows)))


def _parts(graph: Graph, rows: int) -> Parts | None:
    """Return the parts of which a graph puts its rows together, if it has any."""
    shape, axes = _reduced_axes(graph)
    sizes = {t.size // rows for t in graph.output_types}
    if axes != (len(shape) - 1,) or not sizes <= {1, shape[-1]}:
        return None
    return parts_of(graph, shape[-1])


def _part_stores(builder: PartBuilder, signature: Signature, rows: int) -> list[Store]:
    """Return a store for each part of every output with a row's elements."""
    graph, parts = builder.graph, builder.parts
    row = Index.of(Axis("row", rows))
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        columns = type_.size // rows
        for place in places_of(parts) if columns == parts.length else [Index()]:
            term = builder.element(value, unflatten(row * columns + place, type_.shape))
            stores.append(Store(name, row * columns + place, term, type_.dtype))
    return stores


def _stores(builder: Builder, signature: Signature, rows: int, row: Index) -> list[Store]:
    graph = builder.graph
    reduced = _reduced_place(graph, row)
    stores = []
    for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True):
        if type_.size % rows:
            raise UnsupportedError(f"the output {name} {type_} has no part per row.")
        columns = type_.size // rows
        if value in builder.ranked and columns <= MAX_RANKED:
            stores += _ranked_stores(builder, value, name, row)
            continue
        place = row * columns + Index.of(Axis(REDUCED_AXIS, columns))
        if columns > 1 and type_.size == reduced.size:
            stores.append(_element_store(builder, value, name, reduced))
            continue
        term = builder.element(value, unflatten(place, type_.shape))
        stores.append(Store(name, place, term, type_.dtype))
    return stores


def _ranked_stores(builder: Builder, value: ValueId, name: str, row: Index) -> list[Store]:
    """Return a store for each of the few elements of a row, every one of a rank of its own."""
    type_ = builder.graph.types[value]
    columns = type_.size // max(1, row.bounds[1] + 1)
    places = [row * columns + column for column in range(columns)]
    return [
        Store(name, p, builder.element(value, unflatten(p, type_.shape)), type_.dtype)
        for p in places
    ]


def _element_store(builder: Builder, value: ValueId, name: str, reduced: "_Reduced") -> Store:
    """Return the store of an output with the elements that are reduced, wherever views put them."""
    graph = builder.graph
    views = views_of_shape(graph, value, reduced.shape) or []
    inner = views[-1].inputs[0] if views else value
    place = reduced.place
    term = builder.element(inner, unflatten(place, graph.types[inner].shape))
    for node in reversed(views):
        if node.op == "transpose":
            places = unflatten(place, graph.types[node.inputs[0]].shape)
            turned = [places[axis] for axis in Call.of(graph, node).integers("axes")]
            place = flatten(turned, graph.types[node.outputs[0]].shape)
    return Store(name, place, term, graph.types[value].dtype)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """Where the element of a row and a column stands in what the reductions reduce."""

    place: Index
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def _reduced_place(graph: Graph, row: Index) -> _Reduced:
    shape, axes = _reduced_axes(graph)
    length = math.prod(shape[axis] for axis in axes)
    column = Index.of(Axis(REDUCED_AXIS, length))
    along = dict(zip(axes, unflatten(column, [shape[a] for a in axes]), strict=True))
    kept = [i for i in range(len(shape)) if i not in axes]
    across = dict(zip(kept, unflatten(row, [shape[i] for i in kept]), strict=True))
    places = [along[i] if i in along else across[i] for i in range(len(shape))]
    return _Reduced(flatten(places, shape), shape)


def _reduced_axes(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of which rows are reduced or ranked, and the axes of a row."""
    if is_ranked(graph):
        shape = ranked_shape(graph)
        return shape, (len(shape) - 1,)
    node = next((n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION), None)
    if node is None:
        plain = plain_rows(graph)
        assert plain is not None, "rows are counted before"
        return plain
    call = Call.of(graph, node)
    return call.inputs[0].shape, reduced_axes(call)


def is_strided(stores: Sequence[Store]) -> bool:
    """Say whether neighbouring columns stand apart in memory, so that threads should take rows."""
    steps: dict[tuple[object, ...], tuple[int, set[int]]] = {}
    for term in walk([s.value for s in stores]):
        if isinstance(term, Load):
            for axis in term.axes:
                step = term.offset.coefficient(axis) or 0
                if axis.name == "column" and step > 1:
                    key = (term.array, term.offset.terms)
                    steps.setdefault(key, (step, set()))[1].add(term.offset.offset % step)
    # Elements that a lane reads together leave no gap where they are all that stands in a step.
    return any(len(places) < step for step, places in steps.values())
