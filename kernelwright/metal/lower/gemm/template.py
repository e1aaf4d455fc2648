"""Products of many rows on simdgroup matrices."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.gemm.kernel import lower_matmul
from kernelwright.metal.lower.gemm.space import matmul_tiles
from kernelwright.metal.lower.program.opening import program_of
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Matmul


def _build(graph: Graph, schedule: Matmul) -> Program:
    return program_of(lower_matmul(graph, schedule))


def _footprint(graph: Graph, schedule: Matmul) -> Footprint:
    tiles = matmul_tiles(graph, schedule)
    return Footprint(WORKING_REGISTERS + tiles.registers, tiles.threadgroup_bytes)


def _describe(schedule: Matmul) -> str:
    rows, columns = 8 * schedule.rows, 8 * schedule.columns * schedule.simdgroups
    return (
        f"Tiles of {rows} by {columns} results on simdgroup matrices, "
        f"{schedule.depth} terms staged at a time by {schedule.simdgroups} simdgroups."
    )


MATMUL = Template(
    schedule=Matmul,
    build=_build,
    footprint=_footprint,
    describe=_describe,
    strategy="Tiles on simdgroup matrices; operands made as they are staged, results mapped.",
)
