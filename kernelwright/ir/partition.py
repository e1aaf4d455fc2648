"""Cutting a graph into regions by greedy forward fusion; the same graph, the same cut."""

from collections.abc import Iterable

from kernelwright.ir.family import FUSED_INDEXING, Pattern, classify
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.legality import MAX_BUFFERS
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region

_FUSED = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION})
_COPIES = FUSED_INDEXING - {"arange"}
Cluster = frozenset[int]


def partition(graph: Graph) -> list[Region]:
    """Cut a canonical graph into disjoint legal regions, in the order of their first nodes.

    Nodes are visited in topological order. Each takes its views along and joins the clusters
    that make its operands: all of them if the result is legal, else those that give it most.
    A region of a single op saves nothing and is left to MLX, unless the graph holds no other.
    """
    search = _Greedy(graph)
    for index, node in enumerate(graph.nodes):
        if _is_fused(node):
            search.place(index, node)
    regions = [Region(graph, tuple(sorted(cluster))) for cluster in search.clusters()]
    regions.sort(key=lambda region: region.indices[0])
    worthwhile = [region for region in regions if len(work(region)) > 1]
    return worthwhile or [r for r in regions if classify(r.extract()).pattern is not Pattern.NONE]


def work(region: Region) -> tuple[Node, ...]:
    """Return the nodes of a region that MLX would launch a kernel for."""
    return tuple(node for node in region.nodes if _is_fused(node))


def _is_fused(node: Node) -> bool:
    return op_named(node.op).kind in _FUSED or node.op in _COPIES


class _Greedy:
    """The clusters so far; every node is in at most one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cluster_of: dict[int, Cluster] = {}

    def clusters(self) -> Iterable[Cluster]:
        return dict.fromkeys(self._cluster_of.values())

    def place(self, index: int, node: Node) -> None:
        views, makers = self._reach(node)
        own = frozenset({index, *views})
        joined = self._join(own, makers)
        for member in joined:
            self._cluster_of[member] = joined

    def _reach(self, node: Node) -> tuple[set[int], list[Cluster]]:
        """Return the views on the way to a node's operands, and the clusters beyond them."""
        views: set[int] = set()
        weight: dict[Cluster, int] = {}
        frontier = list(node.inputs)
        while frontier:
            value = frontier.pop()
            maker = self._graph.producer_of.get(value)
            if maker is None:
                continue
            if maker in self._cluster_of:
                cluster = self._cluster_of[maker]
                weight[cluster] = weight.get(cluster, 0) + self._graph.types[value].nbytes
            elif self._is_private_view(maker):
                views.add(maker)
                frontier.extend(self._graph.nodes[maker].inputs)
        ordered = sorted(weight, key=lambda cluster: (-weight[cluster], min(cluster)))
        return views, ordered

    def _is_private_view(self, index: int) -> bool:
        node = self._graph.nodes[index]
        if op_named(node.op).kind is not Kind.VIEW and node.op != "arange":
            return False
        readers = {i for v in node.outputs for i in self._graph.consumers_of[v]}
        returned = any(v in self._graph.outputs for v in node.outputs)
        return len(readers) == 1 and not returned

    def _join(self, own: Cluster, makers: list[Cluster]) -> Cluster:
        if not makers:
            return own
        everything = own.union(*makers)
        if self._is_legal(everything):
            return everything
        joined = own
        for maker in makers if len(makers) > 1 else []:
            if self._is_legal(joined | maker):
                joined |= maker
        return joined

    def _is_legal(self, cluster: Cluster) -> bool:
        region = Region(self._graph, tuple(sorted(cluster)))
        if len(region.inputs) + len(region.outputs) > MAX_BUFFERS:
            return False
        if classify(region.extract()).pattern is Pattern.NONE:
            return False
        return not self._makes_a_cycle(cluster)

    def _makes_a_cycle(self, cluster: Cluster) -> bool:
        """Say whether the cluster would wait for something that waits for it."""
        graph, first = self._graph, min(cluster)
        seen: set[int] = set()
        frontier = self._makers_outside(cluster, cluster)
        while frontier:
            index = frontier.pop()
            if index in seen:
                continue
            group = self._cluster_of.get(index, frozenset({index}))
            seen |= group
            if max(group) < first:
                # Nothing this early can depend on the cluster.
                continue
            for member in group:
                for value in graph.nodes[member].inputs:
                    maker = graph.producer_of.get(value)
                    if maker in cluster:
                        return True
                    if maker is not None and maker not in seen:
                        frontier.append(maker)
        return False

    def _makers_outside(self, group: Cluster, cluster: Cluster) -> list[int]:
        values: set[ValueId] = {v for i in group for v in self._graph.nodes[i].inputs}
        makers = {self._graph.producer_of[v] for v in values if v in self._graph.producer_of}
        return sorted(makers - cluster)
