"""How far below a format's end numbers stay, so that no sound order of a task's steps overflows.

A kernel may multiply factors in any order, scale before a sum or after it, and merge means and
sums of squares of parts of a row: what stands on the way is then larger than in the graph's own
order by factors that the graph shows. What a wrong factor makes overflow shows beyond that room.
"""

import math
from functools import lru_cache

import numpy as np

from kernelwright.evaluator.inputs.far_rows import MOST_ROOM
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, Op, op_named

_KEPT_GRAPHS = 64
_LEAST_ROOM = 4.0
"""Powers of two: squares of the difference of two such numbers, arguments times log2(e)."""
_ORDINARY_FACTOR, _ORDINARY_DIVISOR = 3.0, 13.0
"""Of an ordinary number that others are multiplied by, or of the inverse of one."""


@lru_cache(maxsize=_KEPT_GRAPHS)
def overflow_room(graph: Graph) -> float:
    """Return how many powers of two sound orders need below the end, `MOST_ROOM` at most."""
    reached, computed = set(graph.inputs), set[ValueId]()
    room = _LEAST_ROOM
    for node in graph.nodes:
        if not reached.intersection(node.inputs):
            continue
        reached.update(node.outputs)
        op = op_named(node.op)
        room += _room_of(graph, node, op, reached, computed)
        if op.kind is not Kind.VIEW or computed.intersection(node.inputs):
            computed.update(node.outputs)
    return min(room, MOST_ROOM)


def _room_of(
    graph: Graph, node: Node, op: Op, reached: set[ValueId], computed: set[ValueId]
) -> float:
    """Return by how many powers what a kernel has on the way may exceed what the graph has."""
    does = op.behaviour
    if op.name in ("multiply", "divide"):
        return _room_of_factor(graph, node, op, reached)
    if op.kind is Kind.REDUCTION and op.name in ("sum", "mean"):
        call = Call.of(graph, node)
        terms = call.inputs[0].size / max(call.outputs[0].size, 1)
        is_plain = op.name == "sum" and computed.isdisjoint(node.inputs)
        return 0.0 if is_plain else math.log2(max(terms, 1.0))
    if does.is_power or op.name in ("matmul", "addmm"):
        return _ORDINARY_FACTOR
    is_kept = does.picks or does.is_bounded or does.makes_bool or does.makes_weights
    is_kept |= bool(does.slopes) or does.is_extreme or does.makes_places or does.is_decided_by_one
    is_kept |= op.kind in (Kind.VIEW, Kind.SORT) or op.name in ("sqrt", "rsqrt", "cumsum", "exp")
    return 0.0 if is_kept else MOST_ROOM


def _room_of_factor(graph: Graph, node: Node, op: Op, reached: set[ValueId]) -> float:
    constant = next((v for v in node.inputs if v not in reached), None)
    if constant is None or (op.name == "divide" and constant == node.inputs[0]):
        return _ORDINARY_DIVISOR if op.name == "divide" else _ORDINARY_FACTOR
    factor = _scalar(graph, constant)
    return MOST_ROOM if factor is None else abs(math.log2(factor))


def _scalar(graph: Graph, value: ValueId) -> float | None:
    """Return the size of a constant that is one number, however it is shaped."""
    while (producer := graph.producer_of.get(value)) is not None:
        node = graph.nodes[producer]
        op = op_named(node.op)
        if len(node.inputs) != 1 or not (op.kind is Kind.VIEW or op.behaviour.converts):
            return None
        value = node.inputs[0]
    constant = graph.constant_of.get(value)
    if constant is None or constant.type.size != 1:
        return None
    size = abs(float(np.asarray(constant.array, np.float64).reshape(-1)[0]))
    return size if 0 < size < math.inf else None
