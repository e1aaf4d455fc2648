"""From a graph and a schedule to a program; pure."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.family import served
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.registry import template_of
from kernelwright.metal.lower.term.nesting import refuses_deep_nesting
from kernelwright.metal.lower.term.width import refuse_unproven_widths
from kernelwright.metal.schedule import Schedule
from kernelwright.metal.target.msl.spelling import MSL_TYPE


@refuses_deep_nesting
def lower(graph: Graph, schedule: Schedule) -> Program:
    """Write the program that computes `graph` in the way that `schedule` says.

    The program binds every dimension by name on which its kernels' text does not depend.

    Raises:
        UnsupportedError: the graph is not one that the schedule's family computes.
    """
    if empty := [t for t in (*graph.input_types, *graph.output_types) if t.size == 0]:
        raise UnsupportedError(f"an array without elements, {empty[0]}, needs no kernel.")
    if foreign := [t for t in graph.types if t.dtype not in MSL_TYPE]:
        raise UnsupportedError(
            f"Metal has no {foreign[0].dtype.short}; cast the arrays, or leave {foreign[0]} to MLX."
        )
    graph = served(graph)
    template = template_of(schedule)
    refuse_unproven_widths(graph, schedule, has_wide_offsets=template.has_wide_offsets)
    return template.build(graph, schedule)
