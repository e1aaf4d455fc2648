"""Elementwise chains whose inputs and outputs lie along different axes."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.pointwise.template import elementwise_footprint
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.resource import Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.lower.transposed.program import lower_transposed
from kernelwright.metal.lower.transposed.space import transposed_bytes
from kernelwright.metal.schedule import Transposed


def _build(graph: Graph, schedule: Transposed) -> Program:
    return fixed_program(
        graph, lambda other, signature: ((lower_transposed(other, signature, schedule),), ())
    )


def _footprint(graph: Graph, schedule: Transposed) -> Footprint:
    elementwise = elementwise_footprint(graph, schedule)
    return Footprint(elementwise.registers, transposed_bytes(graph, schedule))


def _describe(schedule: Transposed) -> str:
    return (
        f"Tiles of {schedule.rows} x {schedule.columns} turned in threadgroup memory, "
        f"{schedule.vector} neighbours an access."
    )


TRANSPOSED = Template(
    schedule=Transposed,
    build=_build,
    footprint=_footprint,
    describe=_describe,
    strategy="Tiles turned in threadgroup memory: inputs and outputs both move in whole lines.",
)
