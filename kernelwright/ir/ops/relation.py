"""How the dimensions of what an op makes hang together with those of what it reads."""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dimension import ONE, Size, product, total
from kernelwright.ir.graph.equation import Equations
from kernelwright.ir.ops.axes import reduced_axes, slices
from kernelwright.ir.ops.op import Call

Sizes = tuple[Size, ...]


class Sizing(Protocol):
    """The dimensions of a graph's values over free symbols, which relations tie to each other."""

    graph: Graph
    equations: Equations
    of: dict[ValueId, Sizes]

    def resolved(self, value: ValueId) -> Sizes:
        """Return a value's dimensions with all that is known put in."""
        ...

    def equate(self, left: Sizes, right: Sizes, why: str) -> None:
        """Require two shapes of equal rank to be equal."""
        ...

    def pin(self, value: ValueId, why: str) -> None:
        """Fix every dimension of a value."""
        ...

    def is_part(self, value: ValueId, axis: int, taken: int) -> bool:
        """Say whether the slices of a value cut an axis into equal parts, all of them used."""
        ...

    def is_window(self, value: ValueId, axis: int, taken: int) -> bool:
        """Say whether the slices of a value are like windows that slide from end to end."""
        ...


def _why(node: Node) -> str:
    return f"{node.op} fixes it"


def fixed(shapes: Sizing, node: Node, call: Call) -> None:
    """Fix every dimension."""
    for value in (*node.inputs, *node.outputs):
        shapes.pin(value, _why(node))


def alike(shapes: Sizing, node: Node, call: Call) -> None:
    """All operands and results have one shape."""
    for value in (*node.inputs, *node.outputs[1:]):
        shapes.equate(shapes.of[value], shapes.of[node.outputs[0]], _why(node))


def reduced(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are not reduced keep their size."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    axes = reduced_axes(call)
    for axis, (a, b) in enumerate(zip(source, result, strict=True)):
        if axis not in axes:
            shapes.equations.equate(a, b, _why(node))


def along_axis(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has its operand's shape."""
    shapes.equate(shapes.of[node.inputs[0]], shapes.of[node.outputs[0]], _why(node))


def spread(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are no repetition keep their size."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    trailing = result[len(result) - len(source) :]
    for a, b in zip(source, trailing, strict=True):
        if a != ONE:
            shapes.equations.equate(a, b, _why(node))


def permuted(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes change places."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(tuple(source[axis] for axis in call.integers("axes")), result, _why(node))


def reshaped(shapes: Sizing, node: Node, call: Call) -> None:
    """Match runs of axes with equal products; within a run, the first axis takes the change."""
    source, result = shapes.resolved(node.inputs[0]), shapes.of[node.outputs[0]]
    for before, after in _runs(call.inputs[0].shape, call.outputs[0].shape):
        left = tuple(source[i] for i in before if source[i] != ONE)
        right = tuple(result[i] for i in after if result[i] != ONE)
        if len(left) == 1 and len(right) == 1:
            shapes.equations.equate(left[0], right[0], _why(node))
            continue
        if len(right) <= 1:
            shapes.equations.equate(product(right), product(left), _why(node))
            continue
        # Of the new axes, the inner ones keep the sizes that were written.
        for size in right[1:]:
            shapes.equations.pin(size, "a reshape splits it")
        shapes.equations.equate(product(left), product(right), _why(node))


def _runs(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split two shapes of equal size into the shortest runs of axes with equal products."""
    runs, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        start_i, start_j = i, j
        left = before[i] if i < len(before) else 1
        right = after[j] if j < len(after) else 1
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while left != right:
            if left < right:
                left *= before[i]
                i += 1
            else:
                right *= after[j]
                j += 1
        runs.append((tuple(range(start_i, i)), tuple(range(start_j, j))))
    return runs


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
        shapes.equations.equate(source[axis], whole, _why(node))


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


def concatenated(shapes: Sizing, node: Node, call: Call) -> None:
    """Parts add up."""
    axis, result = call.integer("axis"), shapes.of[node.outputs[0]]
    for value in node.inputs:
        for i, (a, b) in enumerate(zip(shapes.of[value], result, strict=True)):
            if i != axis:
                shapes.equations.equate(a, b, _why(node))
    parts = total(tuple(shapes.of[value][axis] for value in node.inputs))
    shapes.equations.equate(result[axis], parts, _why(node))


def padded(shapes: Sizing, node: Node, call: Call) -> None:
    """Each axis is longer by what is added at its ends."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    for axis, (a, b) in enumerate(zip(source, result, strict=True)):
        added = call.outputs[0].shape[axis] - call.inputs[0].shape[axis]
        shapes.equations.equate(b, a + Size.number(added), _why(node))


def convolved(shapes: Sizing, node: Node, call: Call) -> None:
    """Batches are free, features where no groups are told apart, and places by steps of strides.

    The window is kept, and so is what a stride leaves over at the end.
    """
    (x, weight), result = (shapes.of[v] for v in node.inputs), shapes.of[node.outputs[0]]
    equations, why = shapes.equations, _why(node)
    equations.equate(x[0], result[0], why)
    equations.equate(weight[0], result[-1], why)
    equations.equate(x[-1], Size.number(call.integer("groups")) * weight[-1], why)
    if call.integer("groups") != 1:
        equations.pin(x[-1], "a convolution's groups divide it")
        equations.pin(result[-1], "a convolution's groups divide it")
    for axis in range(1, len(x) - 1):
        equations.pin(weight[axis], "a convolution's window is fixed")
        step = Size.number(call.integers("strides")[axis - 1])
        spread = Size.number(call.integers("input_dilation")[axis - 1])
        left = (
            call.inputs[0].shape[axis] * call.integers("input_dilation")[axis - 1]
            - call.outputs[0].shape[axis] * call.integers("strides")[axis - 1]
        )
        equations.equate(step * result[axis] + Size.number(left), spread * x[axis], why)


def parted(shapes: Sizing, node: Node, call: Call) -> None:
    """All axes are whole but the one that is cut, which equal parts share."""
    source, axis = shapes.of[node.inputs[0]], call.integer("axis")
    sizes = {t.shape[axis] for t in call.outputs}
    for value in node.outputs:
        for i, (a, b) in enumerate(zip(source, shapes.of[value], strict=True)):
            if i != axis:
                shapes.equations.equate(a, b, _why(node))
            elif len(sizes) == 1:
                shapes.equations.equate(a, Size.number(len(node.outputs)) * b, _why(node))
            else:
                shapes.equations.pin(a, _CUT)
                shapes.equations.pin(b, _CUT)


def multiplied(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows, columns and depth of a matrix product."""
    left, right = shapes.of[node.inputs[0]], shapes.of[node.inputs[1]]
    result = shapes.of[node.outputs[0]]
    shapes.equations.equate(left[-1], right[-2], _why(node))
    shapes.equations.equate(left[-2], result[-2], _why(node))
    shapes.equations.equate(right[-1], result[-1], _why(node))
    for operand in (left, right, *(shapes.of[v] for v in node.inputs[2:])):
        lead = operand[:-2] if operand in (left, right) else operand
        for a, b in zip(reversed(lead), reversed(result[: len(result) - 2]), strict=False):
            if a != ONE and operand in (left, right):
                shapes.equations.equate(a, b, _why(node))
    for bias in node.inputs[2:]:
        shapes.equate(shapes.of[bias], result, _why(node))


def ranked(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows are free; the ranks that are taken may count from the row's end."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(source[:-1], result[:-1], _why(node))
    shapes.equations.pin(source[-1], _why(node))
    shapes.equations.pin(result[-1], _why(node))


def attended(shapes: Sizing, node: Node, call: Call) -> None:
    """Batches, queries and keys are free; heads hang together in groups, and are kept."""
    query, key, value = (shapes.of[v] for v in node.inputs[:3])
    result = shapes.of[node.outputs[0]]
    why = _why(node)
    for size in (query[1], key[1], value[1], result[1]):
        shapes.equations.pin(size, why)
    pairs = [(key[0], query[0]), (value[0], query[0]), (result[0], query[0])]
    pairs += [(key[3], query[3]), (value[2], key[2]), (result[2], query[2]), (result[3], value[3])]
    for a, b in pairs:
        shapes.equations.equate(a, b, why)
    whole = (query[0], query[1], query[2], key[2])
    for mask in node.inputs[3 : len(node.inputs) - call.flag("has_sinks")]:
        for a, b in zip(reversed(shapes.of[mask]), reversed(whole), strict=False):
            if a != ONE:
                shapes.equations.equate(a, b, why)
    for sinks in node.inputs[len(node.inputs) - call.flag("has_sinks") :]:
        shapes.pin(sinks, why)


def dequantized(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows are free; a row's length hangs together with its words and groups, and is kept."""
    result = shapes.of[node.outputs[0]]
    for value in node.inputs:
        shapes.equate(shapes.of[value][:-1], result[:-1], _why(node))
        shapes.equations.pin(shapes.of[value][-1], _why(node))
    shapes.equations.pin(result[-1], _why(node))


def multiplied_by_packed(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows and columns are free; the depth hangs together with words and groups."""
    left, packed, *rest = (shapes.of[v] for v in node.inputs)
    result = shapes.of[node.outputs[0]]
    if not call.flag("transpose") or len(packed) != 2:
        fixed(shapes, node, call)
        return
    shapes.equate(left[:-1], result[:-1], _why(node))
    shapes.equations.equate(packed[0], result[-1], _why(node))
    for parameters in rest:
        shapes.equations.equate(parameters[0], packed[0], _why(node))
    for operand in (left, packed, *rest):
        shapes.equations.pin(operand[-1], _why(node))


def gathered(shapes: Sizing, node: Node, call: Call) -> None:
    """Whole windows of the axes that are not indexed, one element of those that are."""
    axes, source = call.integers("axes"), shapes.of[node.inputs[0]]
    result = shapes.of[node.outputs[0]]
    lead = len(result) - len(source)
    for value in node.inputs[1:]:
        shapes.equate(shapes.of[value], result[:lead], _why(node))
    for axis, size in enumerate(call.integers("slice_sizes")):
        if axis not in axes and size == call.inputs[0].shape[axis]:
            shapes.equations.equate(source[axis], result[lead + axis], _why(node))
        elif axis not in axes or size != 1:
            shapes.equations.pin(source[axis], _why(node))
            shapes.equations.pin(result[lead + axis], _why(node))
    for axis, value in zip(axes, node.inputs[1:], strict=True):
        if value in shapes.graph.constant_of:
            shapes.equations.pin(source[axis], "it is read at places that are captured numbers")


def gathered_along(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has the indices' shape."""
    shapes.equate(shapes.of[node.inputs[1]], shapes.of[node.outputs[0]], _why(node))
    _beside_places(shapes, node, call, "read")


def scattered_along(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has the array's shape, updates that of the indices."""
    source, index, update = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], _why(node))
    shapes.equate(index, update, _why(node))
    _beside_places(shapes, node, call, "written")


def _beside_places(shapes: Sizing, node: Node, call: Call, done: str) -> None:
    """Let an array and the places in it agree on all axes but the one that they are along."""
    source, index = shapes.of[node.inputs[0]], shapes.of[node.inputs[1]]
    for axis, (a, b) in enumerate(zip(source, index, strict=True)):
        if axis != call.integer("axis"):
            shapes.equations.equate(a, b, _why(node))
        elif node.inputs[1] in shapes.graph.constant_of:
            shapes.equations.pin(a, f"it is {done} at places that are captured numbers")


def updated(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are updated to their end, or up to a place counted from it, are free."""
    source, part = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], _why(node))
    for axis, place in enumerate(slices(call)):
        size, given = call.inputs[0].shape[axis], call.inputs[1].shape[axis]
        if place.step == 1 and goes_to_end(place, size):
            left = Size.number(size - given)
            shapes.equations.equate(source[axis], part[axis] + left, _why(node))
        else:
            shapes.equations.pin(source[axis], "a slice of it is updated at fixed places")
            shapes.equations.pin(part[axis], "a slice of it is updated at fixed places")


_SMALL = 4
"""Starts and steps of ranges up to this one are no sizes."""


def counted(shapes: Sizing, node: Node, call: Call) -> None:
    """Counting in small whole steps follows any size; other ranges belong to their numbers."""
    start, step = call.number("start"), call.number("step")
    is_whole = start == int(start) and step == int(step) != 0
    if not is_whole or not 0 <= start <= _SMALL or abs(step) > _SMALL:
        shapes.pin(node.outputs[0], "a range has fixed ends")
