"""Rows without a reduction: what a row shares is computed once for it and written beside it."""

import math

from kernelwright.ir.analysis.row_independence import row_independence
from kernelwright.ir.graph import Graph

_FEWEST_ROWS, _LONGEST_ROW = 32, 4096
"""Rows below which, and elements of a row beyond which, lanes of one row leave a GPU idle."""


def plain_rows(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return a shape and the axes of its rows, where some outputs have one element for each row."""
    sizes = sorted({t.size for t in graph.output_types})
    if len(sizes) != 2 or sizes[0] < _FEWEST_ROWS or sizes[1] % sizes[0]:
        return None
    rows, length = sizes[0], sizes[1] // sizes[0]
    shape = next(t.shape for t in graph.output_types if t.size == sizes[1])
    ends = [i for i in range(len(shape)) if math.prod(shape[:i]) == rows]
    single = [v for v in graph.outputs if graph.types[v].size == rows]
    lead = {_without_ones(graph.types[v].shape) for v in single}
    if not ends or lead != {_without_ones(shape[: ends[-1]])} or length > _LONGEST_ROW:
        return None
    axes = tuple(range(ends[-1], len(shape)))
    return (shape, axes) if row_independence(graph, shape, axes, single) else None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
