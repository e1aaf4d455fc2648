"""What is found out about a graph is asked for once, and goes with the graph."""

import gc
from weakref import ref

import mlx.core as mx
import pytest

from kernelwright.ir import Graph, capture
from kernelwright.ir.graph.kept import kept_with_graph


def _graph(weights: int) -> Graph:
    weight = mx.ones((weights,))
    return capture(lambda x: mx.exp(x) * weight, mx.zeros((weights,)))


@pytest.mark.parametrize("weights", [4, 1 << 15])
def test_a_graph_is_asked_about_once(weights: int) -> None:
    asked: list[Graph] = []

    @kept_with_graph
    def nodes(graph: Graph) -> int:
        asked.append(graph)
        return len(graph.nodes)

    graph = _graph(weights)
    assert nodes(graph) == nodes(graph) == len(graph.nodes)
    assert len(asked) == 1


def test_equal_graphs_of_few_bytes_share_an_answer() -> None:
    @kept_with_graph
    def answer(_: Graph) -> list[int]:
        return []

    assert answer(_graph(4)) is not answer(_graph(8))
    one, other = _graph(4), _graph(4)
    assert answer(one) is answer(other)


@pytest.mark.parametrize("weights", [4, 1 << 15])
def test_an_answer_keeps_no_graph(weights: int) -> None:
    answer = kept_with_graph(lambda graph: len(graph.nodes))
    graph = _graph(weights)
    answer(graph)
    gone = ref(graph)
    del graph
    gc.collect()
    assert gone() is None
