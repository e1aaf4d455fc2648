"""Which schedules a graph has on a device, the best guess first, and what each takes on chip."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.classify import Pattern, classify, served
from kernelwright.metal.lower.registry import family_of, template_of
from kernelwright.metal.lower.resource import Footprint
from kernelwright.metal.lower.term.nesting import refuses_deep_nesting
from kernelwright.metal.lower.term.width import has_wide_arrays
from kernelwright.metal.schedule import Schedule


@refuses_deep_nesting
def schedules(graph: Graph, device: DeviceInfo) -> tuple[Schedule, ...]:
    """Return every legal schedule of a graph, in the order in which to try them.

    Raises:
        UnsupportedError: no family computes the graph.
    """
    graph = served(graph)
    match = classify(graph)
    if match.pattern is Pattern.NONE:
        raise UnsupportedError(f"no family of kernels computes this: {match.reason}.")
    found = tuple(family_of(match.pattern).schedules(graph, device))
    if not has_wide_arrays(graph):
        return found
    # Where none has, each of them says so when it is written.
    return tuple(s for s in found if template_of(s).has_wide_offsets) or found


@refuses_deep_nesting
def footprint(graph: Graph, schedule: Schedule) -> Footprint:
    """Estimate what a graph's kernel takes on chip under a schedule."""
    return template_of(schedule).footprint(served(graph), schedule)
