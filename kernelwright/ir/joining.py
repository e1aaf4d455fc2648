"""Joining finished clusters: fusing node by node never sees where a whole cluster leads."""

from collections.abc import Iterator

from kernelwright.ir.cluster import Cluster, Clusters, Judge
from kernelwright.ir.graph import Graph, ValueId

_LEAST_GAIN_US = 1e-6


def join_clusters(judge: Judge, cut: Clusters) -> Clusters:
    """Join clusters that feed each other or read the same array, as long as that saves time.

    On the way to a join, outputs may differ in size, or belong to different rows: rope's tables
    and what they turn are one kernel only once all of it is there.
    """
    while (joined := _first_gain(judge, cut)) is not None:
        cut = cut.with_cluster(joined)
    return cut


def _first_gain(judge: Judge, cut: Clusters) -> Cluster | None:
    for one, other in _neighbours(judge.graph, cut):
        joined = one | other
        if not cut.allows(joined):
            continue
        if judge.time_us(joined) < judge.time_us(one) + judge.time_us(other) - _LEAST_GAIN_US:
            return joined
    return None


def _neighbours(graph: Graph, cut: Clusters) -> Iterator[tuple[Cluster, Cluster]]:
    """Yield pairs of clusters with a value in common, the earliest first."""
    touching: dict[ValueId, list[Cluster]] = {}
    ordered = sorted(cut.all(), key=min)
    for cluster in ordered:
        values = dict.fromkeys(
            v for i in sorted(cluster) for v in (*graph.nodes[i].inputs, *graph.nodes[i].outputs)
        )
        for value in values:
            if graph.types[value].size > 1 or value not in graph.constant_of:
                touching.setdefault(value, []).append(cluster)
    seen: set[tuple[Cluster, Cluster]] = set()
    for cluster in ordered:
        for value in touching:
            if cluster not in touching[value]:
                continue
            for other in touching[value]:
                pair = (cluster, other)
                if min(other) > min(cluster) and pair not in seen:
                    seen.add(pair)
                    yield pair
