"""Rows and columns of one matrix, reduced in one walk over it."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.banded.program import banded_footprint, lower_banded
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.rowwise.template import STRATEGY
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Banded


def _build(graph: Graph, schedule: Banded) -> Program:
    return fixed_program(graph, lambda other, signature: lower_banded(other, signature, schedule))


def _footprint(graph: Graph, schedule: Banded) -> Footprint:
    kept, shared = banded_footprint(graph, schedule)
    return Footprint(WORKING_REGISTERS + kept, shared)


def _describe(schedule: Banded) -> str:
    side = f"{schedule.teams} rows side by side" if schedule.teams > 1 else "a row at a time"
    return (
        f"Bands of rows, {side} by {schedule.lanes} threads each, columns joined in "
        f"registers over {schedule.depth} rows and then over bands."
    )


BANDED = Template(Banded, _build, _footprint, _describe, STRATEGY)
