"""Elementwise chains: every thread computes a few neighbouring elements."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.family.concatenated_outputs import stacked_axis
from kernelwright.metal.kernel import Kernel, Program
from kernelwright.metal.lower.pointwise.kernel import lower_elementwise
from kernelwright.metal.lower.pointwise.stacked import lower_stacked
from kernelwright.metal.lower.program.open_program import open_program
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Elementwise


def elementwise_footprint(graph: Graph, _: object) -> Footprint:
    """Estimate what an elementwise chain takes on chip."""
    return Footprint(WORKING_REGISTERS + len(graph.nodes) // 4, 0)


def _build(graph: Graph, schedule: Elementwise) -> Program:
    return open_program(graph, lambda other, signature: _kernels(other, signature, schedule))


def _kernels(graph: Graph, signature: Signature, schedule: Elementwise) -> tuple[Kernel, ...]:
    axis = stacked_axis(graph)
    if axis is not None and (one := lower_stacked(graph, signature, axis, schedule)):
        return (one,)
    # Outputs of other sizes share no threads, and so no kernel.
    sizes = dict.fromkeys(t.size for t in graph.output_types)
    groups = [[i for i, t in enumerate(graph.output_types) if t.size == size] for size in sizes]
    return tuple(lower_elementwise(graph, signature, group, schedule) for group in groups)


def _describe(schedule: Elementwise) -> str:
    if schedule.vector == 1 and schedule.rows == 1:
        return f"One element a thread, {schedule.threads} threads a threadgroup."
    runs = f"{schedule.unroll} runs of " if schedule.unroll > 1 else ""
    below = f" in each of {schedule.rows} rows" if schedule.rows > 1 else ""
    return (
        f"{runs}{schedule.vector} neighbouring elements{below} a thread, "
        f"{schedule.threads} threads a threadgroup."
    )


ELEMENTWISE = Template(
    schedule=Elementwise,
    build=_build,
    footprint=elementwise_footprint,
    describe=_describe,
    strategy="One pass over the elements; every input is read once and every output written once.",
    has_wide_offsets=True,
)
