"""The same computation at other shapes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.analysis.shape import Shapes
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

Axis = tuple[int, int]
"""An input's position and one of its axes."""


@dataclass(frozen=True)
class FreeDimension:
    """Input axes that can only change together, and what hangs on their size.

    `axes[i]` is always `multiples[i]` times the dimension.
    """

    axes: tuple[Axis, ...]
    multiples: tuple[int, ...]
    size: int
    is_reduced: bool
    """A reduction, scan, sort or contraction runs along it."""


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
    groups: dict[int, list[tuple[Axis, int]]] = {}
    for position, value in enumerate(graph.inputs):
        for axis, size in enumerate(shapes.resolved(value)):
            if len(size.symbols) == 1:
                groups.setdefault(size.symbols[0], []).append(((position, axis), size.factor))
    return tuple(
        FreeDimension(
            axes=tuple(axis for axis, _ in members),
            multiples=tuple(multiple for _, multiple in members),
            size=_size(graph, members[0]),
            is_reduced=symbol in reduced,
        )
        for symbol, members in groups.items()
        if symbol not in spelled
    )


def resize(graph: Graph, sizes: Mapping[Axis, int]) -> Graph:
    """Return the same computation with some axes of the inputs in other sizes.

    Axes that can only change together follow. `sizes` maps (input position, axis) to a size; where
    that is an `OpenSize`, so is all that follows from it, in arithmetic over its name.

    Raises:
        InputError: there is no such axis, or two sizes contradict each other.
        UnsupportedError: an axis is tied to a constant, a captured weight or an op that fixes it.
    """
    shapes, spelled = _dimensions(graph).shapes, _dimensions(graph).spelled
    chosen: dict[int, int] = {}
    for (position, axis), wanted in sizes.items():
        symbol, value = _solved(graph, shapes, position, axis, wanted)
        if symbol in spelled and wanted != graph.input_types[position].shape[axis]:
            raise UnsupportedError(
                f"{graph.input_names()[position]} axis {axis} cannot change: the constant "
                f"{spelled[symbol]:.6g} may have been computed from its size; take sizes from "
                f"mx.mean, or make the constant an input."
            )
        if chosen.setdefault(symbol, value) != value:
            raise InputError(
                f"{graph.input_names()[position]} axis {axis} is tied to another axis that was "
                f"given another size; give both the same."
            )
    if not chosen:
        return graph

    def sized(value: ValueId) -> TensorType:
        shape = tuple(shapes.equations.evaluated(size, chosen) for size in shapes.of[value])
        return TensorType(shape, graph.types[value].dtype)

    types = tuple(sized(v) for v in range(len(graph.types)))
    nodes = tuple(_resized(node, graph, types) for node in graph.nodes)
    resized = replace(graph, types=types, nodes=nodes)
    _check_places(resized)
    return resized


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


def _solved(graph: Graph, shapes: Shapes, position: int, axis: int, wanted: int) -> tuple[int, int]:
    if not 0 <= position < len(graph.inputs):
        raise InputError(f"the graph has {len(graph.inputs)} inputs, found input {position}.")
    value, name = graph.inputs[position], graph.input_names()[position]
    captured = graph.types[value].shape
    if not 0 <= axis < len(captured):
        raise InputError(f"{name} has {len(captured)} axes, found axis {axis}.")
    if wanted < 1:
        raise InputError(f"expected a positive size for {name} axis {axis}, found {wanted}.")
    if wanted == captured[axis]:
        # Fixed axes may be asked for what they are.
        symbols = shapes.resolved(value)[axis].symbols
        if len(symbols) != 1:
            return -1 - position * len(captured) - axis, wanted
    try:
        return shapes.equations.solve(shapes.of[value][axis], wanted)
    except UnsupportedError as e:
        raise UnsupportedError(
            f"{name} axis {axis} is {captured[axis]} and {wanted} was asked for, but {e}."
        ) from e


def _resized(node: Node, graph: Graph, types: tuple[TensorType, ...]) -> Node:
    """Return the node with the attributes that spell out sizes written anew."""
    call, resized = Call.of(graph, node), op_named(node.op).resized
    if resized is None:
        return node
    changed = resized(call, tuple(types[v] for v in node.inputs), types[node.outputs[0]])
    attributes = tuple((key, changed.get(key, value)) for key, value in node.attributes)
    return Node(node.op, node.inputs, node.outputs, attributes)


def _size(graph: Graph, member: tuple[Axis, int]) -> int:
    (position, axis), multiple = member
    return graph.input_types[position].shape[axis] // multiple


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
