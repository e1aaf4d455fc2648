"""Large cases whose rows repeat: what is drawn and computed once stands in many blocks of rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.oracle.parallel import in_parts
from kernelwright.evaluator.oracle.row_blocks import RowBlocks, row_blocks, with_rows
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.metal.device.executable import Array

_DISTINCT_ELEMENTS = 1 << 22
"""Of the largest array, which rows of every kind fill many times over."""
_FEWEST_REPEATS = 2


@dataclass(frozen=True)
class Repetition:
    """A graph of as many rows as differ, which stand in a larger one's blocks in a drawn order."""

    blocks: RowBlocks
    distinct: int
    """Blocks that differ."""
    graph: Graph

    def repeated(
        self, drawn: Sequence[Array], types: Sequence[TensorType], random: Random
    ) -> tuple[Array, ...]:
        """Return the inputs of the larger graph from those of the smaller one."""
        order = self._order(random)
        return tuple(
            array if axis is None else self._filled(array, type_, axis, order)
            for array, type_, axis in zip(drawn, types, self.blocks.axes, strict=True)
        )

    def _order(self, random: Random) -> list[int]:
        """Draw which rows each block holds, all of them somewhere and the last of them last.

        No two neighbours in a drawn order agree throughout, so a block that is taken for another
        one shows.
        """
        count = len(self.blocks.starts)
        order = random.integers(0, self.distinct, count)
        order[random.permutation(count)[: self.distinct]] = np.arange(self.distinct)
        order[-1] = self.distinct - 1
        return [int(block) for block in order]

    def _filled(self, array: Array, type_: TensorType, axis: int, order: Sequence[int]) -> Array:
        filled, before = np.empty(type_.shape, array.dtype), (slice(None),) * axis

        def fill(part: tuple[int, int]) -> None:
            start, block = part
            stop = min(start + self.blocks.block, self.blocks.rows)
            # Of the last block its last rows, which stay ordinary.
            end = (block + 1) * self.blocks.block
            filled[(*before, slice(start, stop))] = array[(*before, slice(end - stop + start, end))]

        in_parts(fill, list(zip(self.blocks.starts, order, strict=True)))
        return filled


def repetition_of(graph: Graph) -> Repetition | None:
    """Return how a large graph's rows repeat; None where they mix, or are few enough."""
    largest = max((t.size for t in (*graph.input_types, *graph.output_types)), default=0)
    if largest < _FEWEST_REPEATS * _DISTINCT_ELEMENTS:
        return None
    blocks = row_blocks(graph)
    if blocks is None:
        return None
    row_elements = -(-largest // blocks.rows)
    distinct = max(_DISTINCT_ELEMENTS // (row_elements * blocks.block), 1)
    if distinct * _FEWEST_REPEATS > len(blocks.starts):
        return None
    return Repetition(blocks, distinct, with_rows(graph, blocks, distinct * blocks.block))
