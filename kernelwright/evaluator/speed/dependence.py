"""Which data must all be read before the map of any of it can be written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelwright.evaluator.speed.box_union import box_size, union_size
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, relation
from kernelwright.ir.ops.axes import reduced_axes
from kernelwright.ir.ops.box import Box, reshaped_box

_MOST_BOXES = 16
"""Of one value; more are seldom more of it, and take time to join."""


@dataclass(frozen=True)
class Group:
    """Data of which all must be read before the map of any of it can be written."""

    nbytes: int
    """Of the inputs that the map reads too, in one group."""
    groups: int
    """So many lie in the inputs."""
    op: str
    """The widest reduction over the group."""


def largest_group(graph: Graph) -> Group | None:
    """Return the largest group of data that an output is a map of, None where there is none.

    A sum over a row that the row is divided by makes each row a group. What an element in the
    middle of an output depends on stands for all elements. Dependences through scans,
    contractions and indices are left out, so that there may be larger groups.
    """
    held = _held_elements(graph)
    found = (_group_of(graph, v, held.get(v, {})) for v in graph.outputs)
    return max((g for g in found if g), key=lambda group: group.nbytes, default=None)


def _group_of(graph: Graph, output: ValueId, held: Mapping[ValueId, int]) -> Group | None:
    """Return what one element of an output depends on of the inputs that it is a map of."""
    if not graph.types[output].size:
        return None
    boxes, op = _boxes_behind(graph, output)
    counts = {v: union_size(boxes.get(v, ())) for v, elements in held.items() if elements}
    counts = {v: count for v, count in counts.items() if count > 1}
    if not counts or not op:
        return None
    nbytes = sum(
        count * held[v] * graph.types[v].dtype.itemsize // graph.types[v].size
        for v, count in counts.items()
    )
    widest = max(counts, key=lambda v: counts[v])
    return Group(nbytes, max(graph.types[widest].size // counts[widest], 1), op)


def _held_elements(graph: Graph) -> dict[ValueId, dict[ValueId, int]]:
    """Return how many elements of each input each value holds one to one."""
    held = {v: {v: graph.types[v].size} for v in graph.inputs}
    for node in graph.nodes:
        op = op_named(node.op)
        if not (op.kind is Kind.ELEMENTWISE or op.kind is Kind.VIEW or op.behaviour.makes_weights):
            continue
        for value in node.outputs:
            made = graph.types[value].size
            of_operands = [held.get(v, {}) for v in node.inputs]
            held[value] = {
                v: min(max(of.get(v, 0) for of in of_operands), made)
                for of in of_operands
                for v in of
            }
    return held


def _boxes_behind(graph: Graph, output: ValueId) -> tuple[dict[ValueId, list[Box]], str]:
    """Return what one element of an output depends on, and the widest reduction on the way."""
    middle = tuple(range(n // 2, n // 2 + 1) for n in graph.types[output].shape)
    boxes, widest, op = {output: [middle]}, 1, ""
    for node in reversed(graph.nodes):
        for number, value in enumerate(node.outputs):
            for box in boxes.get(value, ())[:_MOST_BOXES]:
                for operand, read in _boxes_read(graph, node, number, box):
                    found = boxes.setdefault(operand, [])
                    if read not in found:
                        found.append(read)
                    if op_named(node.op).kind is Kind.REDUCTION and box_size(read) > widest:
                        widest, op = box_size(read), node.op
    return boxes, op


def _boxes_read(graph: Graph, node: Node, number: int, box: Box) -> Iterator[tuple[ValueId, Box]]:
    """Yield places of operands that all must be known for those of the output."""
    op, call = op_named(node.op), Call.of(graph, node)
    for operand in node.inputs:
        shape = graph.types[operand].shape
        if op.kind is Kind.REDUCTION and len(shape) == len(box):
            axes = reduced_axes(call)
            yield operand, tuple(range(n) if a in axes else box[a] for a, n in enumerate(shape))
        elif op.box_shown is not None:
            yield operand, op.box_shown(call, number, box)
        elif op.relation is relation.spread:
            own = box[len(box) - len(shape) :]
            pairs = zip(own, shape, strict=True)
            yield operand, tuple(range(1) if n == 1 else places for places, n in pairs)
        elif op.kind is Kind.VIEW and not op.behaviour.overlaps:
            yield operand, reshaped_box(box, call.outputs[number].shape, shape)
        elif op.kind is Kind.ELEMENTWISE and shape == call.outputs[number].shape:
            yield operand, box
