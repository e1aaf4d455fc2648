"""Elementwise outputs that differ along one outer axis, whose parts write one of them each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.kernel_ir.expression import Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.pointwise.element import element_stores, pieces, split_at_choices
from kernelwright.metal.lower.pointwise.kernel import threadgroup_of, write_inner
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Elementwise


@dataclass(frozen=True, slots=True)
class Layer:
    """The outputs that one part of the stacked axis writes, from `start` on."""

    start: int
    axes: tuple[Axis, Axis, Axis]
    stacked: int
    """Which of the axes is the stacked one."""
    stores: list[Store]

    @property
    def axis(self) -> Axis:
        """This layer's part of the stacked axis."""
        return self.axes[self.stacked]


def lower_stacked(
    graph: Graph, signature: Signature, axis: int, schedule: Elementwise
) -> Kernel | None:
    """Write one kernel for all outputs, or return None where their elements do not line up."""
    layers = stacked_layers(graph, signature, axis)
    if layers is None:
        return None
    first = layers[0]
    column = first.axes[2]
    if schedule.unroll > 1 or column.extent % schedule.vector:
        raise UnsupportedError(
            f"stacked outputs take one run a thread that divides {column.extent} elements; use "
            "unroll=1 and a vector that does."
        )
    writer = Writer(signature.scalars, taken=signature.taken)
    for letter, axis_ in zip("zy", first.axes[:2], strict=True):
        if axis_.extent > 1 or axis_ == first.axis:
            writer.line(f"uint {axis_.name} = thread_position_in_grid.{letter};")
    for number, layer in enumerate(layers):
        with writer.block(_head(number, layers)):
            if layer.start:
                writer.line(f"uint {layer.axis.name} = {first.axis.name} - {layer.start};")
            write_inner(writer, layer.axes, layer.stores, schedule.vector)
    writer.join_branches()
    source = "\n".join(writer.lines) + "\n"
    # Each layer numbers its terms itself.
    read = [term for layer in layers for term in walk(s.value for s in layer.stores)]
    used = {term.array for term in read if isinstance(term, Load)}
    total = sum(layer.axis.extent for layer in layers)
    sizes = [total if n == first.stacked else a.extent for n, a in enumerate(first.axes[:2])]
    grid = (column.extent // schedule.vector, sizes[1], sizes[0])
    return Kernel(
        name=kernel_name(graph),
        inputs=tuple(name for name, _ in signature.inputs if name in used),
        outputs=tuple(dict.fromkeys(s.array for layer in layers for s in layer.stores)),
        source=source,
        header=header_for(source),
        grid=grid,
        threadgroup=threadgroup_of(grid, schedule),
    )


def stacked_layers(graph: Graph, signature: Signature, axis: int) -> list[Layer] | None:
    """Return the layers in the order of the outputs; None where their inner axes differ."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for position, type_ in enumerate(graph.output_types):
        groups.setdefault(type_.shape, []).append(position)
    layers: list[Layer] = []
    start = 0
    for shape, positions in groups.items():
        parts = split_at_choices(graph, signature, pieces(graph, positions))
        inner = parts[0].shape
        axes, stacked = _axes(inner, axis, len(layers))
        is_cut = any(p.shape[: axis + 1] != shape[: axis + 1] for p in parts)
        if is_cut or axes[2].extent == 1 or (layers and not _line_up(axes, layers[0])):
            return None
        stores = element_stores(graph, signature, parts, axes)
        layers.append(Layer(start, axes, stacked, stores))
        start += inner[axis]
    return layers


def _axes(shape: tuple[int, ...], axis: int, number: int) -> tuple[tuple[Axis, Axis, Axis], int]:
    """Return a plane, a row and a column axis, and which of them is stacked.

    Where nothing stands before the stacked axis, two axes are left for what stands behind it.
    """
    lead, behind = math.prod(shape[:axis]), [n for n in shape[axis + 1 :] if n != 1] or [1]
    ending = f"_{number + 1}" if number else ""
    if lead == 1:
        sizes = (shape[axis], math.prod(behind[:-1]), behind[-1])
        names = (f"plane{ending}", "row", "column")
    else:
        sizes = (lead, shape[axis], math.prod(behind))
        names = ("plane", f"row{ending}", "column")
    plane, row, column = (Axis(*pair) for pair in zip(names, sizes, strict=True))
    return (plane, row, column), 0 if lead == 1 else 1


def _line_up(axes: tuple[Axis, Axis, Axis], first: Layer) -> bool:
    """Say whether all axes but the stacked one are those of the first layer."""
    pairs = enumerate(zip(axes, first.axes, strict=True))
    return all(a == b for number, (a, b) in pairs if number != first.stacked)


def _head(number: int, layers: Sequence[Layer]) -> str:
    if number == len(layers) - 1:
        return "else"
    head = f"if ({layers[0].axis.name} < {layers[number + 1].start})"
    return head if number == 0 else f"else {head}"
