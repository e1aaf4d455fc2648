"""Joining finished clusters: fusing node by node never sees where a whole cluster leads."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import chain

from kernelwright.ir.graph import ValueId
from kernelwright.plan.cluster import Cluster, Clusters, Judge

_LEAST_GAIN_US = 1e-6
Pair = tuple[Cluster, Cluster]


def join_clusters(judge: Judge, cut: Clusters) -> Clusters:
    """Join clusters that feed each other or read the same array, as long as that saves time.

    Of all pairs the earliest that gains is joined, again and again. On the way to a join, outputs
    may differ in size, or belong to different rows: rope's tables and what they turn are one kernel
    only once all of it is there.
    """
    near = _Neighbours(judge, cut.all())
    refused: set[Pair] = set()
    """They stay so: joining others changes neither's time, and resolves no cycle."""
    place, joined = 0, frozenset[int]()
    while place < len(near.ordered):
        cluster = near.ordered[place]
        # Pairs of clusters before this one have all been refused, but with what was just joined.
        before = near.before(cluster) if cluster == joined else ()
        pairs = chain(((b, cluster) for b in before), ((cluster, a) for a in near.after(cluster)))
        found = next((pair for pair in pairs if _gains(judge, cut, pair, refused)), None)
        if found is None:
            place += 1
            continue
        joined = found[0] | found[1]
        cut = cut.with_cluster(joined)
        near.join(found)
        place = near.place(joined)
    return cut


def _gains(judge: Judge, cut: Clusters, pair: Pair, refused: set[Pair]) -> bool:
    if pair in refused:
        return False
    one, other = pair
    joined = one | other
    apart_us = judge.time_us(one) + judge.time_us(other)
    if cut.allows(joined) and judge.time_us(joined) < apart_us - _LEAST_GAIN_US:
        return True
    refused.add(pair)
    return False


class _Neighbours:
    """Clusters with a value in common, kept as clusters are joined."""

    def __init__(self, judge: Judge, clusters: Iterable[Cluster]) -> None:
        self._judge = judge
        self.ordered = sorted(clusters, key=min)
        """The earliest first."""
        self._touching: dict[ValueId, list[Cluster]] = {}
        self._places: dict[Cluster, dict[ValueId, int]] = {}
        for cluster in self.ordered:
            for value in judge.shareable(cluster):
                self._touching.setdefault(value, []).append(cluster)

    def place(self, cluster: Cluster) -> int:
        """Return where a cluster stands among all."""
        return bisect_left(self.ordered, min(cluster), key=min)

    def before(self, cluster: Cluster) -> list[Cluster]:
        """Return the earlier neighbours of a cluster in order."""
        touching = (self._touching[value] for value in self._judge.shareable(cluster))
        found = {c for clusters in touching for c in clusters if min(c) < min(cluster)}
        return sorted(found, key=min)

    def after(self, cluster: Cluster) -> Iterator[Cluster]:
        """Yield the later neighbours of a cluster, those by the values that are met first first."""
        first, seen = min(cluster), set[Cluster]()
        for value in sorted(self._judge.shareable(cluster), key=self._first_met):
            for other in self._touching[value]:
                if min(other) > first and other not in seen:
                    seen.add(other)
                    yield other

    def _first_met(self, value: ValueId) -> tuple[int, int]:
        """Return at which cluster, and where in it, a value comes up for the first time."""
        cluster = self._touching[value][0]
        if cluster not in self._places:
            values = self._judge.shareable(cluster)
            self._places[cluster] = {value: place for place, value in enumerate(values)}
        return min(cluster), self._places[cluster][value]

    def join(self, pair: Pair) -> None:
        """Put the union of two clusters in the place of both."""
        joined = pair[0] | pair[1]
        for cluster in pair:
            del self.ordered[self.place(cluster)]
            for value in self._judge.shareable(cluster):
                self._touching[value].remove(cluster)
        insort(self.ordered, joined, key=min)
        for value in self._judge.shareable(joined):
            insort(self._touching[value], joined, key=min)
