"""Rows of a quantized matrix times few vectors."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.program.open_program import open_program
from kernelwright.metal.lower.program.own_vector import own_vector_bytes
from kernelwright.metal.lower.quantized.kernel import lower_matvec
from kernelwright.metal.lower.quantized.space import matvec_registers
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Matvec


def _build(graph: Graph, schedule: Matvec) -> Program:
    return open_program(graph, lambda other, signature: (lower_matvec(other, signature, schedule),))


def _footprint(graph: Graph, schedule: Matvec) -> Footprint:
    prologue = prologue_of(graph)
    shared = own_vector_bytes(prologue, schedule.simdgroups * schedule.strips) if prologue else 0
    return Footprint(WORKING_REGISTERS + matvec_registers(graph, schedule), shared)


def _describe(schedule: Matvec) -> str:
    words = f"{schedule.words} words" if schedule.words > 1 else "one word"
    results = f"{schedule.results} results" if schedule.results > 1 else "One result"
    strips = f" {schedule.strips} simdgroups share its columns." if schedule.strips > 1 else ""
    return f"{results} a simdgroup, {words} of packed digits a lane at a time.{strips}"


MATVEC = Template(
    schedule=Matvec,
    build=_build,
    footprint=_footprint,
    describe=_describe,
    strategy="Rows of a packed matrix shared by lanes: read once, unpacked, multiplied, mapped.",
)
