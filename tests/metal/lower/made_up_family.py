"""A made-up template in one file: each thread computes elements that lie a grid apart."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Kernel, Program
from kernelwright.metal.kernel_ir.index import Axis, Index, unflatten
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.pointwise.element import domain, element_stores, pieces
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Schedule


@dataclass(frozen=True)
class Strided(Schedule):
    """Each thread computes elements that lie as far apart as there are threads."""

    family: ClassVar[str] = "strided"

    threads: int = 256
    """Threads per threadgroup."""
    steps: int = 4
    """Elements per thread."""


def _space(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    if len({t.shape for t in graph.output_types}) != 1:
        return
    for threads in (256, 1024):
        if threads <= device.threads_per_threadgroup:
            yield from (Strided(threads, steps) for steps in (4, 16))


def _build(graph: Graph, schedule: Strided) -> Program:
    return fixed_program(
        graph, lambda other, signature: ((_kernel(other, signature, schedule),), ())
    )


def _kernel(graph: Graph, signature: Signature, schedule: Strided) -> Kernel:
    parts = pieces(graph, range(len(graph.outputs)))
    axes = domain(graph, signature, parts)
    stores = element_stores(graph, signature, parts, axes)
    size = graph.output_types[0].size // (len(parts) // len(graph.outputs))
    threads = -(-size // schedule.steps)
    writer = Writer(signature.scalars, taken=signature.taken | {"step", "place"})
    element = Index.of(Axis("place", size))
    with writer.block(f"for (uint step = 0; step < {schedule.steps}; ++step)"):
        writer.line(f"uint place = thread_position_in_grid.x + step * {threads};")
        with writer.block(f"if (place < {size})"):
            for axis, place in zip(axes, unflatten(element, [a.extent for a in axes]), strict=True):
                writer.line(f"uint {axis.name} = {place.render()};")
            writer.prepare([store.value for store in stores])
            for store in stores:
                writer.store(store)
    source = "\n".join(writer.lines) + "\n"
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs),
        outputs=tuple(dict.fromkeys(store.array for store in stores)),
        source=source,
        header=header_for(source),
        grid=(threads, 1, 1),
        threadgroup=(schedule.threads, 1, 1),
    )


STRIDED = Template(
    schedule=Strided,
    build=_build,
    footprint=lambda graph, _: Footprint(WORKING_REGISTERS + len(graph.nodes) // 4, 0),
    describe=lambda schedule: f"{schedule.steps} elements a thread, a whole grid apart.",
    strategy="One pass over the elements, by few threads that live long.",
    space=_space,
)
