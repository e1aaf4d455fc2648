"""Along which axes of an input its slices stay apart, so that each may hold its own data."""

import math
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

Axes = frozenset[int]
"""Of one value: the axes whose index tells from which slice of the input an element comes."""
_FEWEST_ROWS = 64
"""Below this many rows, an input that is read element by element is cut into more."""
_MOST_SEGMENTS = 256
_SHORTEST_SEGMENT = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """An input as `count` rows of `length` elements, none of which meets another in any output."""

    axes: tuple[int, ...]
    """The axes of the rows; none where the flat array is cut into equal segments."""
    count: int
    length: int
    is_elementwise: bool
    """No element meets another of its own input either."""


def independent_axes(graph: Graph, place: int) -> tuple[int, ...]:
    """Return the axes of an input whose slices no output joins, of those longer than one."""
    shape = graph.types[graph.inputs[place]].shape
    return tuple(a for a, n in enumerate(shape) if n > 1 and _stays_apart(graph, place, a))


def rows_of(graph: Graph, place: int) -> Rows | None:
    """Return the rows of an input; None where every part of it may meet every other."""
    type_ = graph.types[graph.inputs[place]]
    axes = independent_axes(graph, place)
    long = tuple(a for a, n in enumerate(type_.shape) if n > 1)
    if not axes:
        return None
    is_elementwise = axes == long
    rows = axes[:-1] if is_elementwise and len(axes) > 1 else axes
    count = math.prod(type_.shape[a] for a in rows)
    if is_elementwise and (len(axes) == 1 or count < _FEWEST_ROWS):
        return _segments(type_)
    return Rows(rows, count, type_.size // count, is_elementwise)


def _segments(type_: TensorType) -> Rows | None:
    count = min(_MOST_SEGMENTS, type_.size // _SHORTEST_SEGMENT)
    return Rows((), count, type_.size // count, is_elementwise=True) if count else None


def _stays_apart(graph: Graph, place: int, axis: int) -> bool:
    """Follow the slices along one axis of an input to the outputs."""
    known: dict[ValueId, Axes] = {graph.inputs[place]: frozenset((axis,))}
    for node in graph.nodes:
        read = [(i, known[v]) for i, v in enumerate(node.inputs) if v in known]
        if not read:
            continue
        after = _after(graph, node, read)
        if not after:
            return False
        known.update(dict.fromkeys(node.outputs, after))
    return True


def _after(graph: Graph, node: Node, read: list[tuple[int, Axes]]) -> Axes:
    """Return the axes of a node's result that tell the slices apart; none where it joins them."""
    kind = op_named(node.op).kind
    made = graph.types[node.outputs[0]].shape
    if kind is Kind.ELEMENTWISE:
        found = {
            frozenset(a + len(made) - len(graph.types[node.inputs[i]].shape) for a in axes)
            for i, axes in read
        }
        return found.pop() if len(found) == 1 else frozenset()
    (place, axes), *others = read
    if others:
        return frozenset()
    if kind is Kind.CONTRACTION:
        return _contracted(graph, node, place, axes)
    if place != 0:
        return frozenset()
    before = graph.types[node.inputs[0]].shape
    if kind is Kind.VIEW:
        return _viewed(graph, node, axes)
    if kind is Kind.REDUCTION:
        gone = reduced_axes(Call.of(graph, node))
        return _left(axes, gone, len(before), len(made))
    if kind in (Kind.SCAN, Kind.SORT) and node.has("axis"):
        axis = node.attribute("axis")
        is_along = not isinstance(axis, int) or axis % max(len(before), 1) in axes
        return frozenset() if is_along or len(made) != len(before) else axes
    return frozenset()


def _left(axes: Axes, gone: tuple[int, ...], before: int, after: int) -> Axes:
    """Return the axes behind a reduction, which leaves out those that it combines or keeps them."""
    if axes.intersection(gone):
        return frozenset()
    if after == before:
        return axes
    return frozenset(a - sum(g < a for g in gone) for a in axes)


def _viewed(graph: Graph, node: Node, axes: Axes) -> Axes:
    before = graph.types[node.inputs[0]].shape
    made = graph.types[node.outputs[0]].shape
    match node.op:
        case "transpose":
            order = Call.of(graph, node).integers("axes")
            return frozenset(place for place, a in enumerate(order) if a in axes)
        case "broadcast":
            return frozenset(a + len(made) - len(before) for a in axes)
        case "slice" | "split":
            shapes = [graph.types[v].shape for v in node.outputs]
            # What is cut along an axis of the rows stands at another index afterwards.
            kept = all(len(s) == len(before) and s[a] == before[a] for s in shapes for a in axes)
            return axes if kept else frozenset()
        case "copy" | "contiguous" | "stop_gradient":
            return axes
        case "reshape" | "flatten" | "unflatten" | "squeeze" | "expand_dims":
            return _regrouped(before, made, axes)
        case _:
            return frozenset()


def _regrouped(before: tuple[int, ...], made: tuple[int, ...], axes: Axes) -> Axes:
    """Follow axes through a reshape: to all axes that theirs were merged into or split to."""
    old = [(a, n) for a, n in enumerate(before) if n != 1]
    new = [(a, n) for a, n in enumerate(made) if n != 1]
    found: set[int] = set()
    while old and new:
        (first, left), (begin, right) = old.pop(0), new.pop(0)
        merged, split = {first}, {begin}
        while left != right:
            if left < right:
                axis, extent = old.pop(0)
                merged.add(axis)
                left *= extent
            else:
                axis, extent = new.pop(0)
                split.add(axis)
                right *= extent
        if merged & axes:
            found |= split
    return frozenset(found)


def is_softmax_weight(graph: Graph, value: ValueId) -> bool:
    """Say whether a value is what a softmax made, which may round to zero or not."""
    producer = graph.producer_of.get(value)
    while producer is not None:
        node = graph.nodes[producer]
        if node.op == "softmax":
            return True
        if op_named(node.op).kind is not Kind.VIEW and node.op not in ("cast", "select"):
            return False
        producer = graph.producer_of.get(node.inputs[-1 if node.op == "select" else 0])
    return False


def _contracted(graph: Graph, node: Node, place: int, axes: Axes) -> Axes:
    """Follow axes through a product: batches, rows of the left, columns of the right."""
    before = graph.types[node.inputs[place]].shape
    made = graph.types[node.outputs[0]].shape
    rank, shift = len(before), len(made) - len(before)
    batch = frozenset(range(rank - 2))
    if node.op == "attention" and place < 3 and rank == len(made):
        allowed = batch | {rank - 2} if place == 0 else batch
        return axes if axes <= allowed and all(before[a] == made[a] for a in axes) else frozenset()
    if node.op in ("matmul", "quantized_matmul") and place == 0 and rank >= 2:
        return frozenset(a + shift for a in axes) if axes <= batch | {rank - 2} else frozenset()
    if (
        node.op == "matmul"
        and place == 1
        and rank >= 2
        and not is_softmax_weight(graph, node.inputs[0])
    ):
        return frozenset(a + shift for a in axes) if axes <= batch | {rank - 1} else frozenset()
    if node.op == "convolution" and place == 0:
        return axes if axes <= {0} else frozenset()
    return frozenset()
