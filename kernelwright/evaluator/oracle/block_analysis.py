"""Analysing a case block by block, where rows do not depend on each other."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, expected_output
from kernelwright.evaluator.oracle.node_rounding import with_node_rounding
from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.evaluator.oracle.row_blocks import (
    block_inputs,
    first_alike,
    row_blocks,
)
from kernelwright.evaluator.oracle.running_error import analyse
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops.undefined import Clamp
from kernelwright.ir.passes.attention_steps import expand_attention, has_attention
from kernelwright.metal.device.executable import Array

T = TypeVar("T", bound=np.generic)


def analyse_in_blocks(
    graph: Graph,
    inputs: Sequence[Array],
    tolerances: Sequence[Tolerance],
    *,
    clamp: Clamp | None = None,
) -> tuple[ExpectedOutput, ...]:
    """Evaluate a graph ideally and bound its errors, block by block on all cores if it may be.

    Blocks with the same inputs are evaluated once.

    Raises:
        IndexError: an index is out of range, without `clamp`.
    """
    blocks = row_blocks(graph)
    if blocks is None:
        return _whole(graph, inputs, tolerances, clamp)

    def one(start: int) -> tuple[ExpectedOutput, ...]:
        part, cut = block_inputs(graph, blocks, inputs, start)
        return _whole(part, cut, tolerances, clamp)

    same = first_alike(blocks, inputs)
    distinct = [start for start in blocks.starts if same[start] == start]
    made = dict(zip(distinct, in_parts(one, distinct), strict=True))
    parts = [made[same[start]] for start in blocks.starts]
    return tuple(
        _joined([part[place] for part in parts], axis, tolerances[place], graph, place)
        for place, axis in enumerate(blocks.output_axes)
    )


def _whole(
    graph: Graph,
    inputs: Sequence[Array],
    tolerances: Sequence[Tolerance],
    clamp: Clamp | None,
) -> tuple[ExpectedOutput, ...]:
    steps = expand_attention(graph, rounds_weights=True) if has_attention(graph) else graph
    tracked = with_node_rounding(steps, inputs, analyse(steps, inputs, clamp=clamp), clamp)
    if steps is not graph:
        # One op has a meaning of its own for what no query sees.
        ideal = reference(graph, list(inputs), clamp=clamp)
        tracked = [replace(t, values=np.asarray(v)) for t, v in zip(tracked, ideal, strict=True)]
    triples = zip(tracked, graph.output_types, tolerances, strict=True)
    return tuple(expected_output(t, type_, tolerance) for t, type_, tolerance in triples)


def _joined(
    parts: Sequence[ExpectedOutput], axis: int, tolerance: Tolerance, graph: Graph, place: int
) -> ExpectedOutput:
    type_ = graph.output_types[place]
    ends = list(accumulate(part.type.shape[axis] for part in parts))

    def joined(arrays: Sequence[NDArray[T] | None], like: NDArray[T]) -> NDArray[T]:
        whole = np.empty(type_.shape, like.dtype)

        def put(number: int) -> None:
            array, size = arrays[number], parts[number].type.shape[axis]
            where = slice(ends[number] - size, ends[number])
            whole[(slice(None),) * axis + (where,)] = 0 if array is None else array

        # Memory is handed out as it is written, which takes a core as long as the copy.
        in_parts(put, range(len(parts)))
        return whole

    def join(arrays: Sequence[NDArray[T] | None]) -> NDArray[T] | None:
        like = next((array for array in arrays if array is not None), None)
        return None if like is None else joined(arrays, like)

    return ExpectedOutput(
        type_,
        tolerance,
        joined([part.expected for part in parts], parts[0].expected),
        joined([part.rounded for part in parts], parts[0].rounded),
        join([part.element_tolerance for part in parts]),
        join([part.ignored for part in parts]),
        keeps_sign=all(part.keeps_sign for part in parts),
        settled_zeros=join([part.settled_zeros for part in parts]),
    )
