"""Many queries on simdgroup matrices."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.lower.attention.program import attention_program
from kernelwright.metal.lower.prefill.kernel import prefill_tiles
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Prefill


def _footprint(graph: Graph, schedule: Prefill) -> Footprint:
    _, tiles = prefill_tiles(graph, schedule)
    return Footprint(WORKING_REGISTERS + tiles.registers, tiles.threadgroup_bytes)


def _describe(schedule: Prefill) -> str:
    queries = 8 * schedule.rows * schedule.simdgroups
    ahead = ", asked for ahead" if schedule.ahead else ""
    return (
        f"Tiles of {queries} queries on simdgroup matrices, {schedule.keys} keys and values "
        f"staged at a time by {schedule.simdgroups} simdgroups{ahead}, online softmax."
    )


PREFILL = Template(
    schedule=Prefill,
    build=attention_program,
    footprint=_footprint,
    describe=_describe,
    strategy="Tiles of queries walk along tiles of keys they see; scores never reach memory.",
)
