"""Which integers may lie anywhere in their type: what reads them wraps around, or cannot fail."""

import numpy as np

from kernelwright.evaluator.inputs.interval import known_numbers, only_moves, span_of
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Domain, op_named


def may_be_anything(graph: Graph, value: ValueId) -> bool:
    """Say whether no integer is too large for an input: all that is made of it is defined.

    Lengths and offsets lie among the positions that they are compared with, or next to them: a
    kernel may compare them so that no sum wraps around, where the task's does.
    """
    if span_of(graph, value) is not None:
        return False
    # Whether a value is computed, or the input as it came.
    made = {value: False}
    for node in graph.nodes:
        read = [v for v in node.inputs if v in made]
        if not read:
            continue
        if not _is_defined(graph, node, made):
            return False
        is_computed = any(made[v] for v in read) or not only_moves(node)
        made.update(dict.fromkeys(node.outputs, is_computed))
    return True


def _is_defined(graph: Graph, node: Node, made: dict[ValueId, bool]) -> bool:
    first, result = graph.types[node.inputs[0]].dtype, graph.types[node.outputs[0]].dtype
    if op_named(node.op).behaviour.converts:
        # A float too large for an integer becomes nobody knows which.
        return not (first.is_float and result.is_integer)
    if only_moves(node) or not any(graph.types[v].dtype.is_integer for v in node.inputs):
        return True
    behaviour, count = op_named(node.op).behaviour, len(node.inputs)
    if behaviour.domain(1, count) is Domain.DIVISOR:
        return _divides_safely(graph, node, made)
    if result.is_float:
        return True
    if behaviour.domain(1, count) is Domain.SHIFT:
        # Any word may be shifted; by how far is another matter.
        return node.inputs[1] not in made
    return behaviour.is_total


def _divides_safely(graph: Graph, node: Node, made: dict[ValueId, bool]) -> bool:
    """Say whether no divisor becomes zero, and the least is not divided by minus one."""
    dividend, divisor = node.inputs
    if made.get(divisor):
        return False
    known = known_numbers(graph, divisor)
    if known is not None and not np.any(known == -1):
        return True
    return not made.get(dividend) or graph.types[dividend].dtype.name.startswith("u")


def avoids_least(graph: Graph, value: ValueId) -> bool:
    """Say whether an integer is divided by what may be minus one, as its least must not be."""
    moved = {value}
    for node in graph.nodes:
        if not moved.intersection(node.inputs):
            continue
        divides = op_named(node.op).behaviour.domain(1, len(node.inputs)) is Domain.DIVISOR
        if divides and node.inputs[0] in moved:
            known = known_numbers(graph, node.inputs[1])
            if known is None or np.any(known == -1):
                return True
        if only_moves(node):
            moved.update(node.outputs)
    return False
