"""How the dimensions of what an op makes hang together with those of what it reads."""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dimension import ONE, Equations, Size, product
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
        left = tuple(source[i] for i in before)
        right = tuple(result[i] for i in after)
        if len(left) == 1 and len(right) == 1:
            shapes.equations.equate(left[0], right[0], _why(node))
            continue
        if len(right) == 1:
            shapes.equations.equate(right[0], product(left), _why(node))
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


def part_of_axes(shapes: Sizing, node: Node, call: Call) -> None:
    """An axis is whole, cut into equal parts, or cut at fixed places."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    for axis, place in enumerate(slices(call)):
        size, taken = call.inputs[0].shape[axis], call.outputs[0].shape[axis]
        if (place.start, taken, place.step) == (0, size, 1):
            shapes.equations.equate(source[axis], result[axis], _why(node))
        elif shapes.is_part(node.inputs[0], axis, taken):
            whole = Size(size // taken) * result[axis]
            shapes.equations.equate(source[axis], whole, _why(node))
        else:
            shapes.equations.pin(source[axis], "a slice cuts it at fixed places")
            shapes.equations.pin(result[axis], "a slice cuts it at fixed places")


def concatenated(shapes: Sizing, node: Node, call: Call) -> None:
    """Parts of like sizes add up."""
    axis, result = call.integer("axis"), shapes.of[node.outputs[0]]
    for value in node.inputs:
        for i, (a, b) in enumerate(zip(shapes.of[value], result, strict=True)):
            if i != axis:
                shapes.equations.equate(a, b, _why(node))
    parts = [shapes.equations.resolved(shapes.of[value][axis]) for value in node.inputs]
    if len({p.symbols for p in parts}) == 1:
        total = Size(sum(p.factor for p in parts), parts[0].symbols)
        shapes.equations.equate(result[axis], total, _why(node))
        return
    for value in (*node.inputs, node.outputs[0]):
        shapes.equations.pin(shapes.of[value][axis], "a concatenation adds unlike sizes")


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
    """Axes that are updated from end to end are free."""
    source, part = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], _why(node))
    for axis, place in enumerate(slices(call)):
        size, given = call.inputs[0].shape[axis], call.inputs[1].shape[axis]
        if (place.start, given, place.step) == (0, size, 1):
            shapes.equations.equate(source[axis], part[axis], _why(node))
        else:
            shapes.equations.pin(source[axis], "a slice of it is updated at fixed places")
            shapes.equations.pin(part[axis], "a slice of it is updated at fixed places")


def counted(shapes: Sizing, node: Node, call: Call) -> None:
    """Counting from 0 in steps of one follows any size; other ranges belong to their numbers."""
    if (call.number("start"), abs(call.number("step"))) != (0.0, 1.0):
        shapes.pin(node.outputs[0], "a range has fixed ends")
