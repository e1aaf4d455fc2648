"""Of a sorted row that only few ranks are taken of, those are one op with the same bits."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import canonicalize, capture, interpret, reference
from kernelwright.ir.passes.ranking import sort_partitions
from kernelwright.metal.family import Pattern, classify

X = mx.random.normal((5, 64), key=mx.random.key(3))
Function = Callable[[mx.array], mx.array]
TAKEN: dict[str, tuple[Function, list[int]]] = {
    "first": (lambda x: mx.argsort(x, axis=-1)[:, :3], [0, 1, 3]),
    "last": (lambda x: mx.topk(x, 4), [60, 1, 4]),
    "turned": (lambda x: mx.sort(x, axis=-1)[:, ::-1][:, 1:5], [62, -1, 4]),
    "partitioned": (lambda x: mx.argpartition(-x, 7, axis=-1)[..., :8], [0, 1, 8]),
}
WHOLE: dict[str, Function] = {
    "every rank": lambda x: mx.sort(x, axis=-1) * 2,
    "too many": lambda x: mx.sort(x, axis=-1)[:, :20],
    "the middle": lambda x: mx.sort(x, axis=-1)[:, 30:33],
    "another axis": lambda x: mx.sort(x, axis=0)[:, :2],
    "few, and every one": lambda x: mx.sort(x, axis=-1) * mx.sort(x, axis=-1)[:, :1],
}


@pytest.mark.parametrize("name", TAKEN)
def test_few_ranks_are_one_op(name: str) -> None:
    function, ranks = TAKEN[name]
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, X))
        node = graph.nodes[-1]
        assert node.op in ("sorted_slice", "argsorted_slice")
        assert [node.attribute(key) for key in ("start", "step", "count")] == ranks
        assert mx.array_equal(interpret(graph, X)[0], function(X))
        in_order = interpret(sort_partitions(graph), X)[0]
    assert np.array_equal(np.array(in_order), reference(graph, [np.array(X)])[0])
    assert canonicalize(graph) == graph
    assert classify(graph).pattern is Pattern.ROWWISE


@pytest.mark.parametrize("name", WHOLE)
def test_other_ranks_leave_the_sort(name: str) -> None:
    graph = canonicalize(capture(WHOLE[name], X))
    assert "sort" in {node.op for node in graph.nodes}
    assert classify(graph).pattern is Pattern.NONE


def test_ranked_rows_cannot_meet_other_rows() -> None:
    def mix(x: mx.array) -> mx.array:
        best = mx.topk(x, 2)
        return best + best[::-1]

    family = classify(canonicalize(capture(mix, X)))
    assert family.pattern is Pattern.NONE
    assert "mixes rows" in family.reason
