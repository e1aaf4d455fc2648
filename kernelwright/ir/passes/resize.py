"""The same computation at other shapes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.analysis.shape import Shapes
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.dimension import Affine
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

Axis = tuple[int, int]
"""An input's position and one of its axes."""


@dataclass(frozen=True)
class FreeDimension:
    """Input axes that change with one size, and what hangs on it.

    `axes[i]` is always `multiples[i]` times the dimension plus `offsets[i]`. The axes of `sums` are
    longer by it, too, but follow from other dimensions as well: those of `past + new` tokens.
    """

    axes: tuple[Axis, ...]
    multiples: tuple[int, ...]
    offsets: tuple[int, ...]
    sums: tuple[Axis, ...]
    size: int
    is_reduced: bool
    """A reduction, scan, sort or contraction runs along it."""

    @property
    def is_alone(self) -> bool:
        """Say whether every axis that changes with it is as long as it is."""
        return set(self.multiples) == {1} and set(self.offsets) == {0} and not self.sums

    def axis_sizes(self, size: int) -> dict[Axis, int]:
        """Return what each of its axes is once the dimension has a size."""
        given = zip(self.axes, self.multiples, self.offsets, strict=True)
        return {axis: multiple * size + offset for axis, multiple, offset in given}


@dataclass(frozen=True)
class _Dimensions:
    """How the sizes of a graph hang together, and which of them its constants may follow from."""

    shapes: Shapes
    spelled: dict[int, float]


# Lowering asks for one dimension after the other.
@lru_cache(maxsize=16)
def _dimensions(graph: Graph) -> _Dimensions:
    shapes = Shapes(graph)
    return _Dimensions(shapes, _spelled_symbols(graph, shapes))


def free_dimensions(graph: Graph) -> tuple[FreeDimension, ...]:
    """List the dimensions of the inputs that can change without changing what is computed."""
    shapes, spelled = _dimensions(graph).shapes, _dimensions(graph).spelled
    reduced = _reduced_symbols(graph, shapes)
    groups: dict[int, list[tuple[Axis, Affine]]] = {}
    sums: dict[int, list[Axis]] = {}
    for position, value in enumerate(graph.inputs):
        for axis, size in enumerate(shapes.resolved(value)):
            if (affine := size.affine) is not None:
                groups.setdefault(affine.symbol, []).append(((position, axis), affine))
            for symbol in size.symbols if affine is None else ():
                sums.setdefault(symbol, []).append((position, axis))
    return tuple(
        FreeDimension(
            axes=tuple(axis for axis, _ in members),
            multiples=tuple(affine.factor for _, affine in members),
            offsets=tuple(affine.offset for _, affine in members),
            sums=tuple(sums.get(symbol, ())),
            size=_size(graph, *members[0]),
            is_reduced=symbol in reduced,
        )
        for symbol, members in groups.items()
        if symbol not in spelled
    )


def resize(graph: Graph, sizes: Mapping[Axis, int]) -> Graph:
    """Return the same computation with some axes of the inputs in other sizes.

    Axes that follow from these change with them: equal ones, multiples, and sums, such as a mask of
    `past + new` keys beside both. `sizes` maps (input position, axis) to a size; where that is an
    `OpenSize`, so is all that follows from it, in arithmetic over its name.

    A slice goes on to leave out at the ends what it leaves out, where that is little; a slice that
    may be a fixed number of elements fixes its axis.

    Raises:
        InputError: there is no such axis, or two sizes contradict each other.
        UnsupportedError: an axis is tied to a constant, a captured weight or an op that fixes it,
            or nothing would be left of a value.
    """
    dimensions = _dimensions(graph)
    shapes = dimensions.shapes
    chosen = _chosen(graph, dimensions, sizes)
    if not chosen:
        return graph

    def sized(value: ValueId) -> TensorType:
        before = graph.types[value].shape
        after = tuple(shapes.equations.evaluated(size, chosen) for size in shapes.of[value])
        if any(new < 1 <= old for old, new in zip(before, after, strict=True)):
            raise UnsupportedError(
                f"{_origin(graph, value)} would have the shape {tuple(map(int, after))}; ask for "
                "larger sizes."
            )
        return TensorType(after, graph.types[value].dtype)

    types = tuple(sized(v) for v in range(len(graph.types)))
    nodes = tuple(_resized(node, graph, types) for node in graph.nodes)
    resized = replace(graph, types=types, nodes=nodes)
    _check_places(resized)
    return resized


def _origin(graph: Graph, value: ValueId) -> str:
    maker = graph.producer_of.get(value)
    return "an input" if maker is None else f"the result of {graph.nodes[maker].op}"


def _chosen(graph: Graph, dimensions: _Dimensions, sizes: Mapping[Axis, int]) -> dict[int, int]:
    """Return the symbols that axes of given sizes set: first what follows from one alone."""
    shapes, chosen = dimensions.shapes, dict[int, int]()
    left = {axis: wanted for axis, wanted in sizes.items() if _is_open(graph, shapes, axis, wanted)}
    while left:
        axis = min(left, key=lambda axis: len(_unknown(graph, shapes, axis, chosen)))
        wanted, size = left.pop(axis), shapes.of[graph.inputs[axis[0]]][axis[1]]
        found = shapes.equations.evaluated(size, chosen)
        if not (unknown := _unknown(graph, shapes, axis, chosen)):
            if wanted != found:
                raise InputError(
                    f"{_named(graph, axis)} is tied to another axis that was given another size: "
                    f"it has to be {found} beside it."
                )
            continue
        if wanted == found:
            # What it is made of stays, whatever is asked for after it.
            captured = shapes.equations.captured_symbols
            chosen.update({symbol: captured[symbol] for symbol in unknown})
            continue
        symbol, value = _solved(graph, shapes, axis, wanted, chosen)
        if symbol in dimensions.spelled:
            raise UnsupportedError(
                f"{_named(graph, axis)} cannot change: the constant "
                f"{dimensions.spelled[symbol]:.6g} may have been computed from its size; take "
                f"sizes from mx.mean, or make the constant an input."
            )
        chosen[symbol] = value
    return chosen


def _is_open(graph: Graph, shapes: Shapes, place: Axis, wanted: int) -> bool:
    """Check that there is such an axis; one that is fixed may be asked for what it is."""
    position, axis = place
    if not 0 <= position < len(graph.inputs):
        raise InputError(f"the graph has {len(graph.inputs)} inputs, found input {position}.")
    value, name = graph.inputs[position], graph.input_names()[position]
    captured = graph.types[value].shape
    if not 0 <= axis < len(captured):
        raise InputError(f"{name} has {len(captured)} axes, found axis {axis}.")
    if wanted < 1:
        raise InputError(f"expected a positive size for {name} axis {axis}, found {wanted}.")
    if shapes.resolved(value)[axis].symbols:
        return True
    if wanted != captured[axis]:
        _solved(graph, shapes, place, wanted, {})
    return False


def _unknown(
    graph: Graph, shapes: Shapes, place: Axis, chosen: Mapping[int, int]
) -> tuple[int, ...]:
    position, axis = place
    return shapes.equations.unknown(shapes.of[graph.inputs[position]][axis], chosen)


def _solved(
    graph: Graph, shapes: Shapes, place: Axis, wanted: int, chosen: Mapping[int, int]
) -> tuple[int, int]:
    position, axis = place
    value = graph.inputs[position]
    asked = f"{_named(graph, place)} is {graph.types[value].shape[axis]} and {int(wanted)} was"
    try:
        return shapes.equations.solve(shapes.of[value][axis], wanted, chosen)
    except UnsupportedError as e:
        unknown = _unknown(graph, shapes, place, chosen)
        if len(unknown) > 1 and (parts := _axes_of(graph, shapes, unknown)):
            raise UnsupportedError(
                f"{asked} asked for, but it follows from {' and '.join(parts)}; give their sizes, "
                "of all but one of them beside it."
            ) from e
        raise UnsupportedError(f"{asked} asked for, but {e}.") from e


def _axes_of(graph: Graph, shapes: Shapes, symbols: Sequence[int]) -> list[str]:
    """Return an axis of an input for each symbol, as far as there is one of its size."""
    found: dict[int, str] = {}
    for position, value in enumerate(graph.inputs):
        for axis, size in enumerate(shapes.resolved(value)):
            if (symbol := size.lone_symbol) in symbols and symbol is not None:
                found.setdefault(symbol, _named(graph, (position, axis)))
    return list(found.values())


def _named(graph: Graph, place: Axis) -> str:
    return f"{graph.input_names()[place[0]]} axis {place[1]}"


def _check_places(graph: Graph) -> None:
    """Refuse a size at which the graph would read behind the end of a table, as of positions."""
    known = Known(graph)
    for node in graph.nodes:
        if node.op != "gather":
            continue
        shape, axes = graph.types[node.inputs[0]].shape, Call.of(graph, node).integers("axes")
        for value, axis in zip(node.inputs[1:], axes, strict=True):
            if known.has(value) and (last := int(known.value(value).max())) >= shape[axis]:
                raise UnsupportedError(
                    f"place {last} would be read of an axis of {shape[axis]}; "
                    "ask for a smaller size."
                )


def _resized(node: Node, graph: Graph, types: tuple[TensorType, ...]) -> Node:
    """Return the node with the attributes that spell out sizes written anew."""
    call, resized = Call.of(graph, node), op_named(node.op).resized
    if resized is None:
        return node
    changed = resized(call, tuple(types[v] for v in node.inputs), types[node.outputs[0]])
    attributes = tuple((key, changed.get(key, value)) for key, value in node.attributes)
    return Node(node.op, node.inputs, node.outputs, attributes)


def _size(graph: Graph, place: Axis, affine: Affine) -> int:
    position, axis = place
    return (graph.input_types[position].shape[axis] - affine.offset) // affine.factor


def _spelled_symbols(graph: Graph, shapes: Shapes) -> dict[int, float]:
    """Find dimensions whose size, root or reciprocal stands in the graph as a constant."""
    constants = [
        float(c.array.reshape(-1)[0])
        for _, c in graph.constants
        if c.type.size == 1 and not c.type.dtype.is_complex
    ]
    found: dict[int, float] = {}
    for value in range(len(graph.types)):
        for size in shapes.resolved(value):
            count = shapes.equations.captured(size)
            # Small counts are constants of other meaning far too often.
            if not size.symbols or count <= 4 or all(s in found for s in size.symbols):
                continue
            spellings = (count, count - 1, count**0.5)
            for constant in constants:
                if any(
                    math.isclose(constant, s, rel_tol=1e-3)
                    or math.isclose(constant * s, 1.0, rel_tol=1e-3)
                    for s in spellings
                ):
                    found.update(dict.fromkeys(size.symbols, constant))
    return found


def _reduced_symbols(graph: Graph, shapes: Shapes) -> set[int]:
    found: set[int] = set()
    for node in graph.nodes:
        call, kind = Call.of(graph, node), op_named(node.op).kind
        axes: tuple[int, ...] = ()
        if kind is Kind.REDUCTION:
            axes = reduced_axes(call)
        elif kind in (Kind.SCAN, Kind.SORT) and "axis" in call.attributes:
            axes = (call.integer("axis"),)
        elif kind is Kind.CONTRACTION and node.op in ("matmul", "addmm"):
            axes = (len(call.inputs[0].shape) - 1,)
        sizes = shapes.resolved(node.inputs[0]) if axes else ()
        found.update(s for axis in axes for s in sizes[axis].symbols)
    return found
