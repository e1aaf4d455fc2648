"""How many neighbours a lane takes together, by the arrays of a graph."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.emit.neighbour import WIDTHS
from kernelwright.metal.lower.emit.run import preferred_run


def legal_widths(graph: Graph) -> tuple[int, ...]:
    """Return how many neighbours a lane may take together: four, or what fills 16 bytes."""
    width = min(t.dtype.itemsize for t in (*graph.input_types, *graph.output_types))
    return (1, *(w for w in WIDTHS if w <= max(16 // width, 4)))


def preferred_width(graph: Graph, device: DeviceInfo) -> int:
    """Return how many neighbours of a graph's largest array a lane takes best."""
    most = max((*graph.input_types, *graph.output_types), key=lambda t: t.size)
    return preferred_run(device, most.dtype.itemsize)
