"""Moving work between finished clusters, where less has to be written between them."""

from collections.abc import Iterator

from kernelwright.ir.graph import Graph
from kernelwright.plan.cluster import Cluster, Clusters, Judge, is_fused
from kernelwright.plan.legality import is_connected

_LEAST_GAIN_US = 1e-6
_MOST_TRIES = 64
"""Cuts whose legality is asked for one graph, the cheapest first for each pair of clusters."""
_MOST_OPTIONS = 8


def recut_clusters(judge: Judge, cut: Clusters) -> Clusters:
    """Give a cluster that could not join its maker the part of it that makes its operands.

    Where a mask is counted and multiplied with what is summed, the product was fused with the mask,
    and would be written for the sum; where a step of a stencil filled a kernel, the next began
    in it, and several halves of that would be written.
    """
    tries = _MOST_TRIES
    while True:
        for maker, reader, kept in _cuts(judge.graph, cut):
            if tries == 0:
                return cut
            tries -= 1
            if (moved := _moved(judge, cut, maker, reader, kept)) is not None:
                cut = moved
                break
        else:
            return cut


def _moved(
    judge: Judge, cut: Clusters, maker: Cluster, reader: Cluster, kept: Cluster
) -> Clusters | None:
    joined = (maker - kept) | reader
    if not judge.fits(kept) or not judge.fits(joined):
        return None
    apart_us = judge.time_us(maker) + judge.time_us(reader)
    if judge.time_us(kept) + judge.time_us(joined) >= apart_us - _LEAST_GAIN_US:
        return None
    # What the moved part shared with what stays may have held it to the rest.
    if not is_connected(judge.region(kept)) or not is_connected(judge.region(joined)):
        return None
    moved = cut.with_clusters((kept, joined))
    return moved if moved.allows(joined) and moved.allows(kept) else None


def _cuts(graph: Graph, cut: Clusters) -> Iterator[tuple[Cluster, Cluster, Cluster]]:
    """Yield (maker, reader, what the maker would keep), those that save most bytes first.

    Of those that save as much, the one that divides the work most evenly is tried first.
    """
    clusters = sorted(cut.all(), key=min)
    holding: dict[int, list[Cluster]] = {}
    for cluster in clusters:
        for index in cluster:
            holding.setdefault(index, []).append(cluster)
    for reader in clusters:
        read = {v for i in reader for v in graph.nodes[i].inputs}
        made_by = {graph.producer_of[v] for v in read if v in graph.producer_of}
        makers = {id(c): c for i in made_by for c in holding.get(i, ()) if c is not reader}
        for maker in sorted(makers.values(), key=min):
            now = _written(graph, maker)
            found = []
            for kept in dict.fromkeys(_beginnings(graph, maker)):
                later = _written(graph, kept)
                added = _written(graph, (maker - kept) | reader) - _written(graph, reader)
                if later + added < now:
                    uneven = abs(2 * len(kept) - len(maker | reader))
                    found.append((later + added, uneven, kept))
            found.sort(key=lambda option: option[:2])
            yield from ((maker, reader, kept) for *_, kept in found[:_MOST_OPTIONS])


def _beginnings(graph: Graph, cluster: Cluster) -> Iterator[Cluster]:
    """Yield what makes one value of a cluster, for each of its values but the last."""
    below: dict[int, frozenset[int]] = {}
    for index in sorted(cluster):
        makers = (graph.producer_of.get(v) for v in graph.nodes[index].inputs)
        parts = (below[m] for m in makers if m is not None and m in cluster)
        below[index] = frozenset({index}).union(*parts)
        if below[index] < cluster and is_fused(graph, graph.nodes[index]):
            yield below[index]


def _written(graph: Graph, cluster: Cluster) -> int:
    """Count the bytes that a cluster writes for others."""
    returned = set(graph.outputs)
    return sum(
        graph.types[v].nbytes
        for i in cluster
        for v in graph.nodes[i].outputs
        if v in returned or any(r not in cluster for r in graph.consumers_of[v])
    )
