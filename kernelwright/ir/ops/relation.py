"""How the dimensions of what an op makes hang together with those of what it reads."""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dimension import ONE, Size, product, total
from kernelwright.ir.graph.equation import Equations
from kernelwright.ir.ops.axes import reduced_axes
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


def reason_of(node: Node) -> str:
    """Return the reason for a size that an op allows no other of."""
    return f"{node.op} fixes it"


def fixed(shapes: Sizing, node: Node, call: Call) -> None:
    """Fix every dimension."""
    for value in (*node.inputs, *node.outputs):
        shapes.pin(value, reason_of(node))


def alike(shapes: Sizing, node: Node, call: Call) -> None:
    """All operands and results have one shape."""
    for value in (*node.inputs, *node.outputs[1:]):
        shapes.equate(shapes.of[value], shapes.of[node.outputs[0]], reason_of(node))


def reduced(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are not reduced keep their size."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    axes = reduced_axes(call)
    for axis, (a, b) in enumerate(zip(source, result, strict=True)):
        if axis not in axes:
            shapes.equations.equate(a, b, reason_of(node))


def along_axis(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has its operand's shape."""
    shapes.equate(shapes.of[node.inputs[0]], shapes.of[node.outputs[0]], reason_of(node))


def spread(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes that are no repetition keep their size."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    trailing = result[len(result) - len(source) :]
    for a, b in zip(source, trailing, strict=True):
        if a != ONE:
            shapes.equations.equate(a, b, reason_of(node))


def permuted(shapes: Sizing, node: Node, call: Call) -> None:
    """Axes change places."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(tuple(source[axis] for axis in call.integers("axes")), result, reason_of(node))


def reshaped(shapes: Sizing, node: Node, call: Call) -> None:
    """Match runs of axes with equal products; within a run, the first axis takes the change."""
    source, result = shapes.resolved(node.inputs[0]), shapes.of[node.outputs[0]]
    for before, after in _runs(call.inputs[0].shape, call.outputs[0].shape):
        left = tuple(source[i] for i in before if source[i] != ONE)
        right = tuple(result[i] for i in after if result[i] != ONE)
        if len(left) == 1 and len(right) == 1:
            shapes.equations.equate(left[0], right[0], reason_of(node))
            continue
        if len(right) <= 1:
            shapes.equations.equate(product(right), product(left), reason_of(node))
            continue
        # Of the new axes, the inner ones keep the sizes that were written.
        for size in right[1:]:
            shapes.equations.pin(size, "a reshape splits it")
        shapes.equations.equate(product(left), product(right), reason_of(node))


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


def concatenated(shapes: Sizing, node: Node, call: Call) -> None:
    """Parts add up."""
    axis, result = call.integer("axis"), shapes.of[node.outputs[0]]
    for value in node.inputs:
        for i, (a, b) in enumerate(zip(shapes.of[value], result, strict=True)):
            if i != axis:
                shapes.equations.equate(a, b, reason_of(node))
    parts = total(tuple(shapes.of[value][axis] for value in node.inputs))
    shapes.equations.equate(result[axis], parts, reason_of(node))


def padded(shapes: Sizing, node: Node, call: Call) -> None:
    """Each axis is longer by what is added at its ends."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    for axis, (a, b) in enumerate(zip(source, result, strict=True)):
        added = call.outputs[0].shape[axis] - call.inputs[0].shape[axis]
        shapes.equations.equate(b, a + Size.number(added), reason_of(node))


def ranked(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows are free; the ranks that are taken may count from the row's end."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(source[:-1], result[:-1], reason_of(node))
    shapes.equations.pin(source[-1], reason_of(node))
    shapes.equations.pin(result[-1], reason_of(node))


def gathered(shapes: Sizing, node: Node, call: Call) -> None:
    """Whole windows of the axes that are not indexed, one element of those that are."""
    axes, source = call.integers("axes"), shapes.of[node.inputs[0]]
    result = shapes.of[node.outputs[0]]
    lead = len(result) - len(source)
    for value in node.inputs[1:]:
        shapes.equate(shapes.of[value], result[:lead], reason_of(node))
    for axis, size in enumerate(call.integers("slice_sizes")):
        if axis not in axes and size == call.inputs[0].shape[axis]:
            shapes.equations.equate(source[axis], result[lead + axis], reason_of(node))
        elif axis not in axes or size != 1:
            shapes.equations.pin(source[axis], reason_of(node))
            shapes.equations.pin(result[lead + axis], reason_of(node))
    for axis, value in zip(axes, node.inputs[1:], strict=True):
        if value in shapes.graph.constant_of:
            shapes.equations.pin(source[axis], "it is read at places that are captured numbers")


def gathered_along(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has the indices' shape."""
    shapes.equate(shapes.of[node.inputs[1]], shapes.of[node.outputs[0]], reason_of(node))
    _beside_places(shapes, node, call, "read")


def scattered_along(shapes: Sizing, node: Node, call: Call) -> None:
    """The result has the array's shape, updates that of the indices."""
    source, index, update = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], reason_of(node))
    shapes.equate(index, update, reason_of(node))
    _beside_places(shapes, node, call, "written")


def _beside_places(shapes: Sizing, node: Node, call: Call, done: str) -> None:
    """Let an array and the places in it agree on all axes but the one that they are along."""
    source, index = shapes.of[node.inputs[0]], shapes.of[node.inputs[1]]
    for axis, (a, b) in enumerate(zip(source, index, strict=True)):
        if axis != call.integer("axis"):
            shapes.equations.equate(a, b, reason_of(node))
        elif node.inputs[1] in shapes.graph.constant_of:
            shapes.equations.pin(a, f"it is {done} at places that are captured numbers")


_SMALL = 4
"""Starts and steps of ranges up to this one are no sizes."""


def counted(shapes: Sizing, node: Node, call: Call) -> None:
    """Counting in small whole steps follows any size; other ranges belong to their numbers."""
    start, step = call.number("start"), call.number("step")
    is_whole = start == int(start) and step == int(step) != 0
    if not is_whole or not 0 <= start <= _SMALL or abs(step) > _SMALL:
        shapes.pin(node.outputs[0], "a range has fixed ends")
