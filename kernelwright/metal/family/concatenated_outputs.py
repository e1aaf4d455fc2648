"""Outputs that differ along one outer axis alone, as the heads of queries and keys do."""

from kernelwright.ir.graph import Graph

_MOST_STACKED = 4


def stacked_axis(graph: Graph) -> int | None:
    """Return the axis along which outputs of different sizes stand on top of each other.

    One kernel then writes all of them: threads of each part of the axis take one output's
    elements. None where they differ in more than that, or along the last axis.
    """
    shapes = list(dict.fromkeys(t.shape for t in graph.output_types))
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1 or not 1 < len(shapes) <= _MOST_STACKED:
        return None
    apart = [i for i in range(ranks.pop()) if len({shape[i] for shape in shapes}) > 1]
    return apart[0] if len(apart) == 1 and apart[0] < len(shapes[0]) - 1 else None
