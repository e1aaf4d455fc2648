"""Which rows and which matrix a product's indices choose for each of its pairs."""

import math

from kernelwright.ir.graph import Node
from kernelwright.metal.kernel_ir.expression import Expr, IndexValue
from kernelwright.metal.kernel_ir.index import unflatten
from kernelwright.metal.lower.term.build import Builder
from kernelwright.metal.lower.term.view import Coordinates


def chosen_pair(builder: Builder, node: Node, pair: Coordinates) -> tuple[Coordinates, Coordinates]:
    """Return where the rows of a pair stand in the first operand, and its matrix in the second.

    `pair` is a place in the indices, which are the node's last two operands.
    """
    rows, matrix = (
        _chosen(builder, builder.element(index, pair), builder.graph.types[operand].shape[:-2])
        for index, operand in zip(node.inputs[-2:], node.inputs[:2], strict=True)
    )
    return rows, matrix


def _chosen(builder: Builder, term: Expr, batch: tuple[int, ...]) -> Coordinates:
    """Return a computed place in a batch; what counts its elements is one already."""
    extent = math.prod(batch)
    if isinstance(term, IndexValue) and term.index.bounds[1] < extent:
        place = term.index
    else:
        place = builder.dynamic(term, extent)
    return unflatten(place, batch)
