"""Along which axes of an input its slices stay apart, so that each may hold its own data."""

import math
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call, Kind, batch_axes, op_named
from kernelwright.ir.ops.op import Axes

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
    op, call = op_named(node.op), Call.of(graph, node)
    if op.kind is Kind.INDEXING or (len(read) > 1 and op.kind is not Kind.ELEMENTWISE):
        return frozenset()
    if op.kind is Kind.CONTRACTION and read[0][0] and is_softmax_weight(graph, node.inputs[0]):
        # Whether a weight rounds to zero decides what is left of a value that is not finite.
        return frozenset()
    found = {batch_axes(op, call, place, axes) for place, axes in read}
    return found.pop() if len(found) == 1 else frozenset()


def weighted_input(graph: Graph) -> int | None:
    """Return an input whose rows the weights of a softmax add up, if there is one."""
    for node in graph.nodes:
        values = None
        if op_named(node.op).held_of is not None:
            values = node.inputs[2]
        elif op_named(node.op).kind is Kind.CONTRACTION and is_softmax_weight(
            graph, node.inputs[0]
        ):
            values = node.inputs[1]
        while values is not None and values not in graph.inputs:
            producer = graph.producer_of.get(values)
            read = None if producer is None else graph.nodes[producer]
            op = None if read is None else op_named(read.op)
            is_moved = op is not None and (op.kind is Kind.VIEW or op.behaviour.converts)
            values = read.inputs[0] if read is not None and is_moved else None
        if values is not None:
            return graph.inputs.index(values)
    return None


def is_softmax_weight(graph: Graph, value: ValueId) -> bool:
    """Say whether a value is what a softmax made, which may round to zero or not."""
    producer = graph.producer_of.get(value)
    while producer is not None:
        node = graph.nodes[producer]
        op = op_named(node.op)
        if op.behaviour.makes_weights:
            return True
        if op.kind is not Kind.VIEW and not (op.behaviour.converts or op.behaviour.chooses):
            return False
        producer = graph.producer_of.get(node.inputs[-1 if op.behaviour.chooses else 0])
    return False
