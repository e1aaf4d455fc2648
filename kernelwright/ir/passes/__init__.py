"""Rewrites of graphs: pure functions that keep every bit of what is computed."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.builder import rewrite
from kernelwright.ir.passes import fold, mean, placing, quantization, view
from kernelwright.ir.passes.attention import gather_attention
from kernelwright.ir.passes.duplicate import (
    eliminate_dead_code,
    merge_common_subexpressions,
    split_views,
)
from kernelwright.ir.passes.fold import fold_constants
from kernelwright.ir.passes.mean import expand_means, recognise_means
from kernelwright.ir.passes.ranking import take_ranks
from kernelwright.ir.passes.standard import standardize
from kernelwright.ir.passes.view import canonicalize_views

_RULES = (*fold.RULES, *view.RULES, *mean.RULES, *placing.RULES, *quantization.RULES)


def canonicalize(graph: Graph) -> Graph:
    """Return the one graph that stands for all ways to write the same computation.

    Constants are folded, views reduced to their canonical kinds, means, dequantized weights and
    few ranks of sorted rows recognised, equal nodes merged, dead ones dropped, and every reader
    given its own views. Replaying the result gives the same bits as replaying `graph`.
    """
    while True:
        simpler = rewrite(take_ranks(graph), _RULES, merge=True)
        if simpler == graph:
            return split_views(graph)
        graph = simpler


__all__ = [
    "canonicalize",
    "canonicalize_views",
    "eliminate_dead_code",
    "expand_means",
    "fold_constants",
    "gather_attention",
    "merge_common_subexpressions",
    "recognise_means",
    "split_views",
    "standardize",
]
