"""Joining finished clusters: fusing node by node never sees where a whole cluster leads."""

from collections.abc import Iterator

from kernelwright.ir.graph import ValueId
from kernelwright.plan.cluster import Cluster, Clusters, Judge

_LEAST_GAIN_US = 1e-6
Pair = tuple[Cluster, Cluster]


def join_clusters(judge: Judge, cut: Clusters) -> Clusters:
    """Join clusters that feed each other or read the same array, as long as that saves time.

    On the way to a join, outputs may differ in size, or belong to different rows: rope's tables
    and what they turn are one kernel only once all of it is there.
    """
    refused: set[Pair] = set()
    while (joined := _first_gain(judge, cut, refused)) is not None:
        cut = cut.with_cluster(joined)
    return cut


def _first_gain(judge: Judge, cut: Clusters, refused: set[Pair]) -> Cluster | None:
    """Return the earliest pair that gains as one cluster; those before it are `refused`.

    They stay so: joining others changes neither's time, and resolves no cycle.
    """
    for pair in _neighbours(judge, cut):
        if pair in refused:
            continue
        one, other = pair
        joined = one | other
        apart_us = judge.time_us(one) + judge.time_us(other)
        if cut.allows(joined) and judge.time_us(joined) < apart_us - _LEAST_GAIN_US:
            return joined
        refused.add(pair)
    return None


def _neighbours(judge: Judge, cut: Clusters) -> Iterator[Pair]:
    """Yield pairs of clusters with a value in common, the earliest first."""
    touching: dict[ValueId, list[Cluster]] = {}
    shared: dict[Cluster, tuple[ValueId, ...]] = {}
    ordered = sorted(cut.all(), key=min)
    for cluster in ordered:
        shared[cluster] = judge.shareable(cluster)
        for value in shared[cluster]:
            touching.setdefault(value, []).append(cluster)
    place = {value: number for number, value in enumerate(touching)}
    seen: set[Pair] = set()
    for cluster in ordered:
        for value in sorted(shared[cluster], key=place.__getitem__):
            for other in touching[value]:
                pair = (cluster, other)
                if min(other) > min(cluster) and pair not in seen:
                    seen.add(pair)
                    yield pair
