"""Short reductions inside longer ones, as the few operations that they are.

The distance of two points is a sum over three coordinates; forces add up over all points. Both
reduce, along different axes, and no walk over rows serves both. Written out, the short one is
arithmetic that each element of the long one does for itself.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.ops import Call, Kind, mean_divisor, op_named, reduced_axes

_LONGEST, _LONG = 32, 17
"""Elements that every element of a longer reduction may read and join by itself, and how many a
reduction joins that is long at all: shorter ones are all a thread's own."""


def spelled_out(graph: Graph) -> Graph:
    """Return the graph with its short reductions written out, itself where there is none.

    A reduction is short among longer ones only: alone, it has families of its own.
    """
    reductions = [n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION]
    lengths = [_length(graph, n) for n in reductions]
    longest = max(lengths, default=0)
    short = {
        node.outputs[0]
        for node, length in zip(reductions, lengths, strict=True)
        if op_named(node.op).joined_by and length <= _LONGEST and max(length + 1, _LONG) <= longest
    }
    if not short:
        return graph
    builder = GraphBuilder(merge=True)
    made = {value: builder.value(graph.types[value]) for value in graph.inputs}
    made |= {value: builder.constant(constant) for value, constant in graph.constant_of.items()}
    for node in graph.nodes:
        inputs = [made[value] for value in node.inputs]
        if node.outputs[0] in short:
            made[node.outputs[0]] = _written_out(builder, graph, node, inputs[0])
            continue
        types = [graph.types[value] for value in node.outputs]
        made.update(
            zip(node.outputs, builder.add(node.op, inputs, types, node.attributes), strict=True)
        )
    inputs = [made[value] for value in graph.inputs]
    return builder.finish(inputs, [made[value] for value in graph.outputs], graph)


def _length(graph: Graph, node: Node) -> int:
    if node.op == "softmax":
        return graph.types[node.inputs[0]].shape[-1]
    return graph.types[node.inputs[0]].size // max(graph.types[node.outputs[0]].size, 1)


def _written_out(builder: GraphBuilder, graph: Graph, node: Node, source: ValueId) -> ValueId:
    """Return the elements of a reduction, joined from the first to the last one."""
    call, type_ = Call.of(graph, node), graph.types[node.outputs[0]]
    joined_by = op_named(node.op).joined_by
    shape, axes = call.inputs[0].shape, reduced_axes(call)
    joined: ValueId | None = None
    for step in itertools.product(*(range(shape[axis]) for axis in axes)):
        part = _part(builder, source, shape, dict(zip(axes, step, strict=True)))
        part = _as(builder, part, type_)
        joined = part if joined is None else builder.apply(joined_by, joined, part)
    assert joined is not None
    if node.op == "mean":
        number = Constant.of(np.array(mean_divisor(call), type_.dtype.numpy), type_.dtype)
        shape_of_all = builder.types[joined].shape
        divisor = builder.apply("broadcast", builder.constant(number), shape=shape_of_all)
        joined = builder.apply("divide", joined, divisor)
    return builder.apply("reshape", joined, shape=type_.shape)


def _part(
    builder: GraphBuilder, source: ValueId, shape: Sequence[int], at: dict[int, int]
) -> ValueId:
    start = tuple(at.get(axis, 0) for axis in range(len(shape)))
    stop = tuple(at[axis] + 1 if axis in at else n for axis, n in enumerate(shape))
    strides = (1,) * len(shape)
    return builder.apply("slice", source, start=start, stop=stop, strides=strides)


def _as(builder: GraphBuilder, value: ValueId, like: TensorType) -> ValueId:
    """Return a value in the type that a reduction adds up in."""
    found = builder.types[value]
    if found.dtype is like.dtype:
        return value
    wanted = TensorType(found.shape, like.dtype)
    return builder.add("cast", [value], [wanted], [("dtype", like.dtype)])[0]
