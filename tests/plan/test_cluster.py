"""What follows a contraction in a cluster, and when it is left to MLX."""

from collections.abc import Callable

import mlx.core as mx

from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.plan.cluster import Cluster, Clusters, Judge
from kernelwright.plan.cost import DEFAULT_PROFILE

X, W = mx.zeros((4, 64)), mx.zeros((32, 64))


def _biased(x: mx.array, w: mx.array) -> mx.array:
    return mx.exp(x @ w.T + 2.0)


def _judge(function: Callable[..., mx.array] = _biased) -> Judge:
    return Judge(canonicalize(capture(function, X, W)), DEFAULT_PROFILE)


def _named(graph: Graph, cluster: Cluster) -> list[str]:
    return [graph.nodes[i].op for i in sorted(cluster)]


def test_what_follows_a_contraction_takes_what_it_alone_reads() -> None:
    judge = _judge()
    parts = judge.around_contraction(frozenset(range(len(judge.graph.nodes))))
    assert parts is not None
    before, after = parts
    assert _named(judge.graph, before) == ["transpose", "matmul"]
    assert sorted(_named(judge.graph, after)) == ["add", "broadcast", "exp"]


def test_work_before_a_contraction_or_two_of_them_stay_together() -> None:
    ahead = _judge(lambda x, w: mx.exp(x) @ w.T)
    assert ahead.around_contraction(frozenset(range(len(ahead.graph.nodes)))) is None
    twice = _judge(lambda x, w: (x @ w.T) @ w)
    assert twice.around_contraction(frozenset(range(len(twice.graph.nodes)))) is None


def _cut(judge: Judge) -> tuple[Clusters, Cluster, Cluster]:
    """Return a cut in which all but the last node is one cluster, that cluster, and the node."""
    last = len(judge.graph.nodes) - 1
    maker = frozenset(range(last))
    cut = Clusters(judge)
    cut.add(maker)
    return cut, maker, frozenset({last})


def test_what_follows_a_contraction_is_freed_where_nothing_is_lost() -> None:
    judge = _judge(lambda x, w: mx.exp(x @ w.T + 2.0).sum(axis=-1, keepdims=True))
    cut, maker, own = _cut(judge)
    joined = cut.freed(own, [maker])
    assert joined is not None
    assert sorted(_named(judge.graph, joined)) == ["add", "broadcast", "exp", "sum"]
    kept = [_named(judge.graph, cluster) for cluster in cut.all()]
    assert ["transpose", "matmul"] in kept


def test_a_cut_stays_as_it_was_where_nothing_can_be_freed() -> None:
    judge = _judge(lambda x, w: mx.sort(mx.exp(x @ w.T + 2.0), axis=-1))
    cut, maker, own = _cut(judge)
    assert cut.freed(own, [maker]) is None
    assert list(cut.all()) == [maker]


def test_of_several_makers_none_is_freed() -> None:
    judge = _judge(lambda x, w: mx.exp(x @ w.T) + 1.0)
    cut, maker, own = _cut(judge)
    assert cut.freed(own, []) is None
    assert cut.freed(own, [maker, frozenset({0})]) is None
