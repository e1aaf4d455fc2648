"""What there is to know of one way to lay kernels out, and which ways a pattern has."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Never, TypeVar

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.classify import Pattern
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.resource import Footprint
from kernelwright.metal.schedule import Schedule

Space = Callable[[Graph, DeviceInfo], Iterable[Schedule]]
"""Returns legal schedules of a graph on a device, in the order in which to try them."""
S_contra = TypeVar("S_contra", bound=Schedule, contravariant=True)


@dataclass(frozen=True, slots=True)
class Template(Generic[S_contra]):
    """One way to lay kernels out, whose decisions are a `schedule`.

    Its functions take graphs that a family's `match` has found fit, and may raise an
    `UnsupportedError` for one that a schedule does not divide.
    """

    schedule: type[S_contra]
    build: Callable[[Graph, S_contra], Program]
    """Writes the program that computes a graph."""
    footprint: Callable[[Graph, S_contra], Footprint]
    """Estimates what its first kernel takes on chip."""
    describe: Callable[[S_contra], str]
    """Says in a sentence what a schedule does."""
    strategy: str
    """Says in a sentence why one lays kernels out so."""
    has_wide_offsets: bool = False
    """True where all offsets are index arithmetic, which widens itself beyond 32 bits."""
    space: Space | None = None
    """Its own schedules, tried after those of its family's space, which has none of them then."""


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """The templates that serve graphs of one pattern."""

    pattern: Pattern
    space: Space
    """Of all templates that have no space of their own."""
    templates: tuple[Template[Never], ...]

    def schedules(self, graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
        """Yield every legal schedule of a graph on a device, in the order in which to try them."""
        yield from self.space(graph, device)
        for template in self.templates:
            if template.space is not None:
                yield from template.space(graph, device)
