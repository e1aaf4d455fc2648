"""How the sizes of an axis and its parts hang together: what is taken of it at every size."""

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.dimension import Size
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.op import Call
from kernelwright.ir.ops.relation import Sizing, reason_of

_MOST_SKIPPED = 8
"""Elements that a slice may leave out at its start, as stencils do."""
_LEAST_SHARE = 4
"""How many times as long an axis is at least as what a slice leaves out at its start."""
_CUT = "a slice cuts it at fixed places"


def part_of_axes(shapes: Sizing, node: Node, call: Call) -> None:
    """An axis is whole, cut into equal parts, taken up to its end, or cut at fixed places."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    for axis, place in enumerate(slices(call)):
        size, taken = call.inputs[0].shape[axis], call.outputs[0].shape[axis]
        if (place.start, taken, place.step) == (0, size, 1) or is_turned(place, size):
            whole = result[axis]
        elif shapes.is_part(node.inputs[0], axis, taken):
            whole = Size.number(size // taken) * result[axis]
        elif goes_to_end(place, size) or shapes.is_window(node.inputs[0], axis, taken):
            left = Size.number(size - place.step * taken)
            whole = Size.number(place.step) * result[axis] + left
        elif is_overhang(shapes, node.inputs[0], axis, place, size):
            shapes.equations.pin(result[axis], "it is what windows overhang")
            continue
        else:
            shapes.equations.pin(source[axis], _CUT)
            shapes.equations.pin(result[axis], _CUT)
            continue
        shapes.equations.equate(source[axis], whole, reason_of(node))


def goes_to_end(place: slice, size: int) -> bool:
    """Say whether a slice ends with its axis, or a fixed number of elements before.

    MLX keeps a stop that was counted from the end, but no start that was: of what skips most of an
    axis it cannot be told whether it is as long at every size.
    """
    ends = place.stop == size or place.stop < 0
    skips_little = place.start <= _MOST_SKIPPED and _LEAST_SHARE * place.start <= size
    return place.step >= 1 and ends and skips_little


def is_overhang(shapes: Sizing, value: ValueId, axis: int, place: slice, size: int) -> bool:
    """Say whether a slice takes the end of an axis that windows as long as the rest slide over.

    This is the state that a causal convolution keeps for its next call: `padded[:, 1 - kernel:]`.
    """
    is_end = (place.stop, place.step) == (size, 1) and 0 < place.start < size
    return is_end and shapes.is_window(value, axis, place.start)


def is_turned(place: slice, size: int) -> bool:
    """Say whether a slice shows all of an axis from its end to its start."""
    return bool((place.start, place.step) == (size - 1, -1) and place.stop < -size)


def parted(shapes: Sizing, node: Node, call: Call) -> None:
    """All axes are whole but the one that is cut, which equal parts share."""
    source, axis = shapes.of[node.inputs[0]], call.integer("axis")
    sizes = {t.shape[axis] for t in call.outputs}
    for value in node.outputs:
        for i, (a, b) in enumerate(zip(source, shapes.of[value], strict=True)):
            if i != axis:
                shapes.equations.equate(a, b, reason_of(node))
            elif len(sizes) == 1:
                shapes.equations.equate(a, Size.number(len(node.outputs)) * b, reason_of(node))
            else:
                shapes.equations.pin(a, _CUT)
                shapes.equations.pin(b, _CUT)


def updated(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are updated to their end, or up to a place counted from it, are free."""
    source, part = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], reason_of(node))
    for axis, place in enumerate(slices(call)):
        size, given = call.inputs[0].shape[axis], call.inputs[1].shape[axis]
        if place.step == 1 and goes_to_end(place, size):
            left = Size.number(size - given)
            shapes.equations.equate(source[axis], part[axis] + left, reason_of(node))
        else:
            shapes.equations.pin(source[axis], "a slice of it is updated at fixed places")
            shapes.equations.pin(part[axis], "a slice of it is updated at fixed places")
