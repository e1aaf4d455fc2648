"""Long reductions, too few to fill a GPU, in stages."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.rowwise.footprint import part_footprint
from kernelwright.metal.lower.rowwise.template import STRATEGY
from kernelwright.metal.lower.staged.program import lower_staged
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Staged


def _build(graph: Graph, schedule: Staged) -> Program:
    return fixed_program(graph, lambda other, signature: lower_staged(other, signature, schedule))


def _describe(schedule: Staged) -> str:
    return (
        f"{schedule.parts} parts of each reduction first, what they left joined, the "
        "outputs from that."
    )


STAGED = Template(Staged, _build, part_footprint, _describe, STRATEGY)
