"""Which ways there are to divide few long rows among threadgroups."""

from collections.abc import Iterator

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.rowwise.split import lower_split
from kernelwright.metal.lower.rowwise.stores import row_count
from kernelwright.metal.schedule import Schedule, Split

FEW_ROWS, LONG_ROW = 32, 1 << 15
"""Up to how many rows, and from which length on, a threadgroup a row leaves a GPU idle."""


def split_schedules(graph: Graph, columns: int) -> Iterator[Schedule]:
    """Yield ways to reduce chunks of rows first, where the rows are too few to fill a GPU."""
    rows = row_count(graph)
    if rows > FEW_ROWS or columns < LONG_ROW or any(t.size != rows for t in graph.output_types):
        return
    signature = Signature.of(graph)
    for chunks in (64, 128, 32, 256):
        vector = 4 if columns % (4 * chunks) == 0 else 1
        schedule = Split(chunks, 256, vector)
        try:
            lower_split(graph, signature, schedule)
        except UnsupportedError:
            continue
        yield schedule
