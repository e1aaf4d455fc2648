"""Cutting a graph into regions; the same graph and profile, the same cut."""

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.graph.kept import kept_with_graph
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.ir.region import Region
from kernelwright.metal.family.classify import UPDATES, Pattern, classify, served
from kernelwright.plan.cluster import Cluster, Clusters, Judge, is_fused
from kernelwright.plan.cluster_merge import join_clusters
from kernelwright.plan.cluster_recut import recut_clusters
from kernelwright.plan.contraction import chooses_matrices
from kernelwright.plan.cost import DEFAULT_PROFILE, Profile
from kernelwright.plan.mlx.attention import has_mlx_kernel, is_worth_tiling
from kernelwright.plan.view_copy import copying_region

_LARGE_REDUCTION = 1 << 20
"""Elements below which a launch costs as much as what a better reduction saves."""
_Cut = tuple[tuple[int, ...], ...]


def partition(graph: Graph, *, width: int = 1, profile: Profile = DEFAULT_PROFILE) -> list[Region]:
    """Cut a canonical graph into disjoint legal regions, in the order of their first nodes.

    Nodes are visited in topological order. Each takes its views along. With a `width` of one it
    joins the clusters that make its operands: all of them if the result is legal, else those
    that give it most. A wider beam also tries to join each of them alone and none, and keeps
    the `width` cuts that the profile estimates to be fastest; it is never slower than greedy
    fusion. At last whole clusters are joined where that saves time. A region of a single op saves
    nothing and is left to MLX, unless there is no other or it is a long reduction across memory;
    so are views that MLX copies.
    """
    cuts = _cuts(graph)
    if (width, profile) not in cuts:
        regions = _partition(graph, width, profile)
        cuts[width, profile] = tuple(region.indices for region in regions)
    return [Region(graph, indices) for indices in cuts[width, profile]]


@kept_with_graph
def _cuts(_: Graph) -> dict[tuple[int, Profile], _Cut]:
    """Return how a graph was cut: a model's layers are alike, and each is asked for repeatedly."""
    return {}


def _partition(graph: Graph, width: int, profile: Profile) -> list[Region]:
    judge = Judge(graph, profile)
    cut = _greedy(judge)
    if width > 1:
        searched = _beam(judge, width)
        greedy_us = sum(map(judge.time_us, cut.all()))
        cut = searched if searched.time_us < greedy_us - 1e-6 else cut
    cut = join_clusters(judge, recut_clusters(judge, join_clusters(judge, cut)))
    regions = [judge.region(cluster) for cluster in cut.all()]
    regions.sort(key=lambda region: region.indices[0])
    regions = [region for region in regions if _is_served(region)]
    worthwhile = [r for r in regions if len(work(r)) > 1 or _is_slow_alone(r)]
    single = [r for r in regions if not _copies_alone(r) and _has_family(r)]
    return worthwhile or single or list(copying_region(graph))


def _copies_alone(region: Region) -> bool:
    """Say whether a region is one copy of a view, which MLX makes as well."""
    return all(op_named(node.op).kind is Kind.VIEW for node in work(region))


def _has_family(region: Region) -> bool:
    return classify(region.bare()).pattern is not Pattern.NONE


def _is_served(region: Region) -> bool:
    """Say whether a kernel family takes a region with an update in its standard form, too."""
    has_update = any(node.op in UPDATES for node in region.nodes)
    return not has_update or classify(served(region.standard())).pattern is not Pattern.NONE


def work(region: Region) -> tuple[Node, ...]:
    """Return the nodes of a region that MLX would launch a kernel for."""
    return tuple(node for node in region.nodes if is_fused(region.graph, node))


def _is_slow_alone(region: Region) -> bool:
    """Say whether MLX may be slow at a region's only op, so that it too can save something.

    Three products with eight of 64 experts take MLX's CUDA backend (0.32.4) 54 us on an H200 where
    their bytes take 5.9.
    """
    is_slow = _is_taken_apart(region) or any(_reduces_across(region, n) for n in work(region))
    is_chosen = any(chooses_matrices(node) for node in region.nodes) and _has_family(region)
    return is_slow or is_chosen or any(_unpacks(region, node) for node in region.nodes)


def _unpacks(region: Region, node: Node) -> bool:
    """Say whether a node unpacks a large matrix.

    For 8192 x 2048 of 4 bits MLX's CUDA backend (0.32.4) takes 38 us on an H200, our kernel 23.
    """
    return node.op == "dequantize" and region.graph.types[node.outputs[0]].size >= _LARGE_REDUCTION


def _reduces_across(region: Region, node: Node) -> bool:
    """Say whether a node reduces a large array along other axes than the last ones.

    Sums of 8192 rows of halves take MLX's CUDA backend (0.32.4) three times as long as their bytes.
    """
    if op_named(node.op).kind is not Kind.REDUCTION:
        return False
    call = Call.of(region.graph, node)
    shape, axes = call.inputs[0].shape, reduced_axes(call)
    kept = [i for i, n in enumerate(shape) if i not in axes and n > 1]
    is_across = bool(kept and axes) and max(kept) > min(axes)
    return is_across and call.inputs[0].size >= _LARGE_REDUCTION


def _is_taken_apart(region: Region) -> bool:
    """Say whether MLX takes a region's only op apart, so that it too saves something."""
    calls = [Call.of(region.graph, n) for n in region.nodes if n.op == "attention"]
    return any(not has_mlx_kernel(call) or is_worth_tiling(call) for call in calls)


def _greedy(judge: Judge) -> Clusters:
    cut = Clusters(judge)
    for index, node in enumerate(judge.graph.nodes):
        if is_fused(judge.graph, node, judge.profile):
            own, makers = cut.reach(index)
            joined = cut.greediest(own, makers)
            cut.add((cut.freed(own, makers) if joined == own else None) or joined)
    return cut


def _beam(judge: Judge, width: int) -> Clusters:
    beam = [Clusters(judge)]
    for index, node in enumerate(judge.graph.nodes):
        if not is_fused(judge.graph, node, judge.profile):
            continue
        options = [cut.with_cluster(joined) for cut in beam for joined in _choices(cut, index)]
        # Sorting is stable: of equals, the one that fused most greedily stays in front.
        beam = sorted(options, key=lambda cut: round(cut.time_us, 6))[:width]
    return beam[0]


def _choices(cut: Clusters, index: int) -> list[Cluster]:
    """List what a node may join, most greedily first: makers together, each alone, none."""
    own, makers = cut.reach(index)
    choices = [cut.greediest(own, makers)]
    choices += [own | maker for maker in makers if cut.allows(own | maker)]
    return list(dict.fromkeys([*choices, own]))
