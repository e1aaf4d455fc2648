"""What every kernel must read of operands that indices, windows and masks choose from."""

import math

import numpy as np

from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Domain, Kind, op_named
from kernelwright.ir.ops.least_read import is_own, least_indices, made_size, operand_size

_LARGEST_MASK = 1 << 24
"""Elements of a condition that is worked out for a count."""
_HIDDEN = float(np.finfo(np.float16).min)
"""What scores are set to that have no weight, or less, in the narrowest dtype."""


def least_indexed(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Return how many elements of one operand are read for `wanted` elements of the output.

    Indices are read where they choose between places that hold different things; of what they
    choose from, no more is certain than one window, for all of them may name the same.
    """
    op = op_named(node.op)
    if op.least_read is not None:
        return op.least_read(graph, node, place, wanted)
    domains = [op.behaviour.domain(i, len(node.inputs)) for i in range(len(node.inputs))]
    if Domain.INDEX in domains[-2:] and wanted == made_size(graph, node):
        return _chosen_matrices(graph, node, place)
    return 0


def least_chosen(graph: Graph, node: Node, place: int) -> int:
    """Return what is read of an operand of a choice whose condition is known beforehand.

    What is not chosen may decide all that follows, as an infinity does a sum: elements count
    where each shows in an output, or has a weight among others of its row.
    """
    known, shape = Known(graph), graph.types[node.outputs[0]].shape
    if not op_named(node.op).behaviour.chooses or not known.has(node.inputs[0]):
        return 0
    if graph.types[node.inputs[place]].shape != shape or math.prod(shape) > _LARGEST_MASK:
        return 0
    condition = known.value(node.inputs[0]).astype(bool)
    chosen = np.broadcast_to(condition if place == 1 else ~condition, shape)
    if _is_weighed(graph, node, known, place):
        chosen = chosen & (chosen.sum(axis=-1, keepdims=True) > 1)
    elif not _is_shown(graph, node.outputs[0]):
        return 0
    return int(np.count_nonzero(chosen))


def _is_shown(graph: Graph, value: int) -> bool:
    """Say whether every element of a value shows in one of an output."""
    while value not in graph.outputs:
        for reader in (graph.nodes[i] for i in graph.consumers_of[value]):
            op, made = op_named(reader.op), graph.types[reader.outputs[0]]
            is_kept = op.kind in (Kind.VIEW, Kind.ELEMENTWISE)
            is_float = made.dtype.is_float and graph.types[value].dtype.is_float
            is_choice = op.behaviour.chooses or op.behaviour.is_extreme
            if is_kept and is_float and not is_choice and made.size == graph.types[value].size:
                value = reader.outputs[0]
                break
        else:
            return False
    return True


def _is_weighed(graph: Graph, node: Node, known: Known, place: int) -> bool:
    """Say whether a softmax reads a choice, of whose other side it makes nothing."""
    hidden = node.inputs[3 - place]
    readers = [graph.nodes[i] for i in graph.consumers_of[node.outputs[0]]]
    if not known.has(hidden) or not any(op_named(r.op).behaviour.makes_weights for r in readers):
        return False
    return bool((known.value(hidden) <= _HIDDEN).all())


def _chosen_matrices(graph: Graph, node: Node, place: int) -> int:
    """Count one matrix of each operand, or as many as indices that are known name."""
    left, right = len(node.inputs) - 2, len(node.inputs) - 1
    counts = {left: _matrices(graph, node, 0), right: _matrices(graph, node, 1)}
    if place in counts:
        data = node.inputs[0 if place == left else 1]
        return least_indices(graph, node, place, counts[place]) if is_own(graph, data) else 0
    index = node.inputs[left if place == 0 else right]
    known = Known(graph)
    distinct = len(np.unique(known.value(index))) if known.has(index) else 1
    return operand_size(graph, node, place) * distinct // max(_matrices(graph, node, place), 1)


def _matrices(graph: Graph, node: Node, place: int) -> int:
    return math.prod(graph.types[node.inputs[place]].shape[:-2])
