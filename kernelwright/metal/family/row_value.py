"""What a row's reductions give that is computed once a row, and not for each of its elements."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from kernelwright.ir.analysis.continuity import is_discontinuous
from kernelwright.ir.graph import Constant, Graph, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, op_named


def merged(graph: Graph) -> Graph:
    """Return the graph with equal nodes made once, so that equal values are one value.

    A half's quotient by what a row shares is a product with its inverse, which the row computes.
    """
    builder = GraphBuilder(merge=True)
    made = {v: builder.value(graph.types[v]) for v in graph.inputs}
    inputs = list(made.values())
    made.update((v, builder.constant(c)) for v, c in graph.constants)
    spread = _shared_divisors(graph)
    for node in graph.nodes:
        types = [graph.types[v] for v in node.outputs]
        values = [made[v] for v in node.inputs]
        op = node.op
        if node.outputs[0] in spread:
            # No half's inverse leaves float's range, and nothing between is rounded.
            op, values[1] = "multiply", _inverse(builder, values[1])
        results = builder.add(op, values, types, node.attributes)
        made.update(zip(node.outputs, results, strict=True))
    bare = replace(graph, names=(), keywords=(), turns=())
    return builder.finish(inputs, [made[v] for v in graph.outputs], bare)


def _shared_divisors(graph: Graph) -> set[ValueId]:
    """Return the quotients of halves by what was reduced and repeated."""
    if any(is_discontinuous(graph, node) for node in graph.nodes):
        return set()
    reduced, found = set[ValueId](), set[ValueId]()
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.REDUCTION or reduced.intersection(node.inputs):
            reduced.update(node.outputs)
        if node.op != "divide" or graph.types[node.outputs[0]].dtype is not Dtype.FLOAT16:
            continue
        producer = graph.producer_of.get(node.inputs[1])
        is_spread = producer is not None and graph.nodes[producer].op == "broadcast"
        if is_spread and node.inputs[1] in reduced:
            found.update(node.outputs)
    return found


def _inverse(builder: GraphBuilder, spread: ValueId) -> ValueId:
    """Return the repeated inverse of what a value repeats."""
    producer = builder.producer(spread)
    assert producer is not None
    source = producer.inputs[0]
    type_ = builder.types[source]
    one = builder.constant(Constant.of(np.array(1, type_.dtype.numpy), type_.dtype))
    ones = builder.apply("broadcast", one, shape=type_.shape)
    inverse = builder.apply("divide", ones, source)
    return builder.apply("broadcast", inverse, shape=builder.types[spread].shape)


def shared_values(
    graph: Graph, joined: Collection[ValueId], known: Collection[ValueId], later: Iterable[ValueId]
) -> list[ValueId]:
    """Return what is computed of joined reductions once a row, and read for each element.

    Args:
        graph: Whose values.
        joined: The reductions whose parts are joined here; all of one size.
        known: What stands in memory already.
        later: The values that later stages compute.

    Returns:
        Values that take the place of the reductions; `joined` itself where that would be fewer.
    """
    of_row = _row_values(graph, joined, known)
    found, plain = (_read(graph, values, known, later) for values in (of_row, set(joined)))
    return found if len(found) <= len(plain) else plain


def _row_values(
    graph: Graph, joined: Collection[ValueId], known: Collection[ValueId]
) -> set[ValueId]:
    """Return joined reductions and the floats of their size that are made of them and the like."""
    rows = max(graph.types[v].size for v in joined)
    small = {v for v in (*known, *graph.constant_of) if graph.types[v].size <= rows}
    found = set(joined)
    below = set(joined)
    for node in graph.nodes:
        type_, kind = graph.types[node.outputs[0]], op_named(node.op).kind
        is_small = type_.size <= rows and small.union(below).issuperset(node.inputs)
        if not is_small or kind not in (Kind.VIEW, Kind.ELEMENTWISE):
            continue
        if below.isdisjoint(node.inputs):
            small.update(node.outputs)
            continue
        below.update(node.outputs)
        if kind is Kind.ELEMENTWISE and type_.size == rows and type_.dtype.is_float:
            found.update(node.outputs)
    return found


def _read(
    graph: Graph, values: Collection[ValueId], known: Collection[ValueId], later: Iterable[ValueId]
) -> list[ValueId]:
    """Return those of some values that others are computed of, in the graph's order."""
    found, seen, waiting = set[ValueId](), set[ValueId](), list(later)
    while waiting:
        value = waiting.pop()
        if value in values:
            found.add(value)
        elif value not in seen and value not in known and value in graph.producer_of:
            waiting += graph.nodes[graph.producer_of[value]].inputs
        seen.add(value)
    return sorted(found)
