"""Growing regions node by node: what a node may join, and what that would cost."""

from collections.abc import Iterable, Sequence

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.metal.family.classify import Pattern, classify, is_index_arithmetic
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.family.contraction import CONTRACTIONS
from kernelwright.metal.family.depthwise_conv import is_window
from kernelwright.metal.family.matvec import PRODUCTS
from kernelwright.metal.family.top_k import RANKED
from kernelwright.metal.limit import MAXIMUM_BUFFERS
from kernelwright.plan.contraction import is_worth_holding, writes_no_more
from kernelwright.plan.cost import DEFAULT_PROFILE, Profile, penalty_us, time_us
from kernelwright.plan.mlx.fusion import copies
from kernelwright.plan.repeated_work import MOST_REPEATED, repeated_operations
from kernelwright.plan.traffic import planned_traffic

_FUSED = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION, Kind.SCAN})
_CONTRACTING = frozenset({Pattern.ATTENTION, Pattern.DENSE, Pattern.MATVEC})
Cluster = frozenset[int]


def is_fused(graph: Graph, node: Node, profile: Profile = DEFAULT_PROFILE) -> bool:
    """Say whether MLX launches a kernel for a node that a region may hold.

    A contraction is held where its arithmetic costs nothing beside its bytes.
    """
    if node.op in CONTRACTIONS:
        return is_worth_holding(
            graph,
            node,
            flops_per_byte=profile.flops_per_us / profile.bytes_per_us,
            launch_bytes=profile.launch_us * profile.bytes_per_us,
        )
    if op_named(node.op).kind in _FUSED or is_window(graph, node) or copies(graph, node):
        return True
    # A range is made where it is read.
    if node.op != "arange" and is_index_arithmetic(graph, node):
        return True
    return node.op in PRODUCTS | RANKED


class Judge:
    """Answers questions about clusters of one graph, each once."""

    def __init__(self, graph: Graph, profile: Profile) -> None:
        self.graph = graph
        self.profile = profile
        self._regions: dict[Cluster, Region] = {}
        self._fits: dict[Cluster, bool] = {}
        self._is_served: dict[Graph, bool] = {}
        """By what a cluster computes: layers of a model are alike."""
        self._time_us: dict[Cluster, float] = {}
        self._shareable: dict[Cluster, tuple[ValueId, ...]] = {}

    def region(self, cluster: Cluster) -> Region:
        """Return a cluster as a region."""
        known = self._regions.get(cluster)
        if known is None:
            known = self._regions[cluster] = Region(self.graph, tuple(sorted(cluster)))
        return known

    def fits(self, cluster: Cluster) -> bool:
        """Say whether one kernel can compute the cluster."""
        known = self._fits.get(cluster)
        if known is None:
            region = self.region(cluster)
            buffers = len(region.inputs) + len(region.outputs)
            known = buffers <= MAXIMUM_BUFFERS and self._has_family(region)
            self._fits[cluster] = known
        return known

    def _has_family(self, region: Region) -> bool:
        graph = region.bare()
        known = self._is_served.get(graph)
        if known is None:
            known = self._is_served[graph] = _has_family(graph)
        return known

    def around_contraction(self, cluster: Cluster) -> tuple[Cluster, Cluster] | None:
        """Return a cluster's only contraction with its views, and what follows it."""
        nodes = self.graph.nodes
        found = [i for i in cluster if op_named(nodes[i].op).kind is Kind.CONTRACTION]
        if len(found) != 1:
            return None
        after: set[int] = set()
        made = set(nodes[found[0]].outputs)
        for index in sorted(cluster):
            if made.intersection(nodes[index].inputs):
                after.add(index)
                made.update(nodes[index].outputs)
        for index in sorted(cluster - after - {found[0]}, reverse=True):
            # What only reads of the result need goes with them: a spread constant, a range.
            readers = {i for v in nodes[index].outputs for i in self.graph.consumers_of[v]}
            if readers and readers <= after:
                after.add(index)
        before = cluster - after
        if any(is_fused(self.graph, nodes[i], self.profile) for i in before - {found[0]}):
            return None
        return before, frozenset(after)

    def time_us(self, cluster: Cluster) -> float:
        """Estimate the time of the cluster as one kernel: bytes, launch, and what it strains."""
        known = self._time_us.get(cluster)
        if known is None:
            region = self.region(cluster)
            fused = planned_traffic(self.graph, [region], region.indices)
            known = time_us(fused, self.profile) + penalty_us(region, fused, self.profile)
            self._time_us[cluster] = known
        return known

    def shareable(self, cluster: Cluster) -> tuple[ValueId, ...]:
        """Return what a cluster reads and makes, but numbers, which every kernel has for itself."""
        known = self._shareable.get(cluster)
        if known is None:
            nodes = [self.graph.nodes[i] for i in sorted(cluster)]
            values = dict.fromkeys(v for node in nodes for v in (*node.inputs, *node.outputs))
            types, constants = self.graph.types, self.graph.constant_of
            known = tuple(v for v in values if types[v].size > 1 or v not in constants)
            self._shareable[cluster] = known
        return known


def _has_family(graph: Graph) -> bool:
    """Say whether a kernel family computes a graph, and repeats and writes little enough."""
    parts = [part.bare() for part in row_parts(graph)] or [graph]
    if max(map(repeated_operations, parts)) > MOST_REPEATED:
        return False
    pattern = classify(graph).pattern
    is_served = pattern is not Pattern.NONE
    return is_served and (pattern not in _CONTRACTING or writes_no_more(graph))


class Clusters:
    """A cut of the nodes seen so far; every node is in at most one cluster."""

    def __init__(self, judge: Judge, cluster_of: dict[int, Cluster] | None = None) -> None:
        self._judge = judge
        self._graph = judge.graph
        self._cluster_of = cluster_of or {}
        self.time_us = 0.0
        """Estimated time of a cut that `with_cluster` built up."""

    def all(self) -> Iterable[Cluster]:
        """Return the clusters in the order in which they were last changed."""
        return dict.fromkeys(self._cluster_of.values())

    def with_cluster(self, joined: Cluster) -> "Clusters":
        """Return a cut in which a cluster replaces those that it holds."""
        return self.with_clusters((joined,))

    def with_clusters(self, parts: Sequence[Cluster]) -> "Clusters":
        """Return a cut in which clusters share the nodes of those that they replace."""
        replaced = {self._cluster_of[i] for part in parts for i in part if i in self._cluster_of}
        changed = Clusters(self._judge, dict(self._cluster_of))
        for part in parts:
            changed.add(part)
        saved = sum(map(self._judge.time_us, replaced))
        changed.time_us = self.time_us + sum(map(self._judge.time_us, parts)) - saved
        return changed

    def add(self, joined: Cluster) -> None:
        """Put a cluster in the place of those that it holds, without weighing it."""
        self._cluster_of.update(dict.fromkeys(joined, joined))

    def reach(self, index: int) -> tuple[Cluster, list[Cluster]]:
        """Return a node with its private views, and the clusters that make its operands.

        The clusters that give it most bytes come first.
        """
        own = {index}
        weight: dict[Cluster, int] = {}
        frontier = list(self._graph.nodes[index].inputs)
        while frontier:
            value = frontier.pop()
            maker = self._graph.producer_of.get(value)
            if maker is None:
                continue
            if maker in self._cluster_of:
                cluster = self._cluster_of[maker]
                weight[cluster] = weight.get(cluster, 0) + self._graph.types[value].nbytes
            elif self._is_private_view(maker):
                own.add(maker)
                frontier.extend(self._graph.nodes[maker].inputs)
        ordered = sorted(weight, key=lambda cluster: (-weight[cluster], min(cluster)))
        return frozenset(own), ordered

    def _is_private_view(self, index: int) -> bool:
        node = self._graph.nodes[index]
        if op_named(node.op).kind is not Kind.VIEW and node.op != "arange":
            return False
        readers = {i for v in node.outputs for i in self._graph.consumers_of[v]}
        returned = any(v in self._graph.outputs for v in node.outputs)
        return len(readers) == 1 and not returned

    def greediest(self, own: Cluster, makers: Sequence[Cluster]) -> Cluster:
        """Join all makers if that is legal, else one after the other, heaviest first."""
        everything = own.union(*makers)
        if not makers or self.allows(everything):
            return everything
        joined = own
        for maker in makers if len(makers) > 1 else ():
            if self.allows(joined | maker):
                joined |= maker
        return joined

    def freed(self, own: Cluster, makers: Sequence[Cluster]) -> Cluster | None:
        """Join a node with what follows a contraction, where that leaves the contraction to MLX.

        Nothing is lost: as many kernels run, on as many bytes, and the contraction is MLX's own.
        """
        if len(makers) != 1 or (parts := self._judge.around_contraction(makers[0])) is None:
            return None
        (maker,), (contraction, after) = makers, parts
        joined = own | after
        self.add(contraction)
        apart_us = self._judge.time_us(maker) + self._judge.time_us(own)
        freed_us = self._judge.time_us(contraction) + self._judge.time_us(joined)
        if freed_us <= apart_us and self.allows(joined):
            return joined
        self.add(maker)
        return None

    def allows(self, cluster: Cluster) -> bool:
        """Say whether a cluster may replace those that it holds."""
        return self._judge.fits(cluster) and not self._makes_a_cycle(cluster)

    def _makes_a_cycle(self, cluster: Cluster) -> bool:
        """Say whether the cluster would wait for something that waits for it."""
        graph, first = self._graph, min(cluster)
        seen: set[int] = set()
        frontier = self._makers_outside(cluster)
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

    def _makers_outside(self, cluster: Cluster) -> list[int]:
        values: set[ValueId] = {v for i in cluster for v in self._graph.nodes[i].inputs}
        makers = {self._graph.producer_of[v] for v in values if v in self._graph.producer_of}
        return sorted(makers - cluster)
