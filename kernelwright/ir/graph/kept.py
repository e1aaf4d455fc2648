"""Answers about a graph that are kept for as long as the graph is there."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from kernelwright.ir.graph.graph import Graph

_MOST_COMPARED = 1 << 16
"""Bytes of constants up to which graphs are compared to find the answers of an equal one."""
Answer = TypeVar("Answer")


def kept_with_graph(find: Callable[[Graph], Answer]) -> Callable[[Graph], Answer]:
    """Ask a function about each graph once.

    Graphs that are equal share an answer. Those that hold weights, which take long to compare, have
    their own. An answer must not hold its graph, or neither is ever freed.
    """
    by_value: WeakKeyDictionary[Graph, Answer] = WeakKeyDictionary()

    @wraps(find)
    def asked(graph: Graph) -> Answer:
        own = graph.answers
        if find not in own:
            own[find] = find(graph) if _holds_weights(graph) else of_equal(graph)
        return cast("Answer", own[find])

    def of_equal(graph: Graph) -> Answer:
        if graph not in by_value:
            by_value[graph] = find(graph)
        return by_value[graph]

    return asked


def _holds_weights(graph: Graph) -> bool:
    return sum(constant.type.nbytes for _, constant in graph.constants) > _MOST_COMPARED
