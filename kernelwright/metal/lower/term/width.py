"""Which offsets fit 32 bits: loops count in 32 bits, and arrays may need more."""

import math

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.metal.schedule import Schedule

_PLACES = 1 << 32
"""Elements that 32 bits count; Metal's positions in a grid have as many."""


def has_wide_arrays(graph: Graph) -> bool:
    """Say whether an array has more elements than 32 bits count."""
    return any(t.size > _PLACES for t in graph.types)


def refuse_unproven_widths(graph: Graph, schedule: Schedule, *, has_wide_offsets: bool) -> None:
    """Refuse a graph whose kernel would count beyond 32 bits in a variable of 32 bits.

    Templates without wide offsets write some of theirs by hand, in 32 bits.

    Raises:
        UnsupportedError: an output, the steps of a reduction or another family's array are larger.
    """
    if not has_wide_arrays(graph):
        return
    if wide := [t for t in graph.output_types if t.size > _PLACES]:
        raise UnsupportedError(
            f"{wide[0]} has more elements than a grid counts in 32 bits; split the array."
        )
    for node in graph.nodes:
        if op_named(node.op).kind is not Kind.REDUCTION:
            continue
        call = Call.of(graph, node)
        count = math.prod(call.inputs[0].shape[axis] for axis in reduced_axes(call))
        if count > _PLACES:
            raise UnsupportedError(
                f"{node.op} takes {count} steps, more than a loop counts in 32 bits; split it."
            )
    if not has_wide_offsets:
        largest = max(graph.types, key=lambda t: t.size)
        raise UnsupportedError(
            f"{largest} has offsets beyond 32 bits, which only elementwise, rowwise and columnwise "
            f"schedules write; {schedule.family} does not."
        )
