"""Few rows times a matrix: every weight is read once."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.gemv.kernel import lower_dense
from kernelwright.metal.lower.gemv.space import dense_tiling
from kernelwright.metal.lower.program.opening import program_of
from kernelwright.metal.lower.program.own_vector import own_vector_bytes
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Dense


def _build(graph: Graph, schedule: Dense) -> Program:
    return program_of(lower_dense(graph, schedule))


def _footprint(graph: Graph, schedule: Dense) -> Footprint:
    tiling = dense_tiling(graph, schedule)
    prologue = prologue_of(graph)
    own = own_vector_bytes(prologue, tiling.threads // 32) if prologue else 0
    return Footprint(WORKING_REGISTERS + tiling.registers, tiling.threadgroup_bytes + own)


def _describe(schedule: Dense) -> str:
    shared = f", {schedule.strips} simdgroups a sum" if schedule.strips > 1 else ""
    if schedule.chunks > 1:
        shared += f", {schedule.chunks} threadgroups a sum"
    own = f"{schedule.columns} columns a simdgroup" if schedule.columns > 1 else "tiles"
    ahead = f", {schedule.terms} terms read ahead" if schedule.terms > 1 else ""
    return (
        f"Every weight read once: {own}{shared}, {schedule.vector} neighbouring weights "
        f"a lane{ahead}, {schedule.teams} teams a threadgroup."
    )


DENSE = Template(
    schedule=Dense,
    build=_build,
    footprint=_footprint,
    describe=_describe,
    strategy="Every weight read once for all rows; the results mapped before they are written.",
)
