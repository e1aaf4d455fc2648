"""How the dimensions of each value follow from those of others, op by op."""

from collections.abc import Callable, Sequence

from kernelwright.ir.dimension import ONE, Equations, Size, product
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.ir.ops.view import slices

Sizes = tuple[Size, ...]
Relation = Callable[["Shapes", Node, Call], None]


class Shapes:
    """The dimensions of every value of a graph, as sizes over free symbols.

    Afterwards two dimensions of the inputs with the same resolved symbol can only change
    together, and a dimension without a symbol cannot change at all.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.equations = Equations()
        self.of: dict[ValueId, Sizes] = {}
        self._slices: dict[ValueId, list[Call]] = {}
        for node in graph.nodes:
            if node.op == "slice":
                self._slices.setdefault(node.inputs[0], []).append(Call.of(graph, node))
        for value in graph.inputs:
            self.of[value] = tuple(self.equations.symbol(n) for n in graph.types[value].shape)
        for value, constant in graph.constants:
            self.of[value] = tuple(Size(n) for n in constant.type.shape)
        for node in graph.nodes:
            for value in node.outputs:
                shape = graph.types[value].shape
                self.of[value] = tuple(self.equations.symbol(n) for n in shape)
            self._relate(node)

    def resolved(self, value: ValueId) -> Sizes:
        """Return a value's dimensions with all that is known put in."""
        return tuple(self.equations.resolved(size) for size in self.of[value])

    def equate(self, left: Sizes, right: Sizes, why: str) -> None:
        """Require two shapes of equal rank to be equal."""
        for a, b in zip(left, right, strict=True):
            self.equations.equate(a, b, why)

    def pin(self, value: ValueId, why: str) -> None:
        """Fix every dimension of a value."""
        for size in self.of[value]:
            self.equations.pin(size, why)

    def is_part(self, value: ValueId, axis: int, taken: int) -> bool:
        """Say whether the slices of a value cut an axis into equal parts, all of them used."""
        size = self.graph.types[value].shape[axis]
        if taken == 0 or size % taken:
            return False
        starts = {
            slices(call)[axis].start
            for call in self._slices.get(value, ())
            if call.outputs[0].shape[axis] == taken and slices(call)[axis].step == 1
        }
        return starts == set(range(0, size, taken))

    def _relate(self, node: Node) -> None:
        call = Call.of(self.graph, node)
        relation = _RELATIONS.get(node.op) or _BY_KIND.get(op_named(node.op).kind, _pinned)
        relation(self, node, call)


def _why(node: Node) -> str:
    return f"{node.op} fixes it"


def _pinned(shapes: Shapes, node: Node, call: Call) -> None:
    for value in (*node.inputs, *node.outputs):
        shapes.pin(value, _why(node))


def _elementwise(shapes: Shapes, node: Node, call: Call) -> None:
    for value in (*node.inputs, *node.outputs[1:]):
        shapes.equate(shapes.of[value], shapes.of[node.outputs[0]], _why(node))


def _reduction(shapes: Shapes, node: Node, call: Call) -> None:
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    axes = reduced_axes(call)
    for axis, (a, b) in enumerate(zip(source, result, strict=True)):
        if axis not in axes:
            shapes.equations.equate(a, b, _why(node))


def _along_axis(shapes: Shapes, node: Node, call: Call) -> None:
    shapes.equate(shapes.of[node.inputs[0]], shapes.of[node.outputs[0]], _why(node))


def _broadcast(shapes: Shapes, node: Node, call: Call) -> None:
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    trailing = result[len(result) - len(source) :]
    for a, b in zip(source, trailing, strict=True):
        if a != ONE:
            shapes.equations.equate(a, b, _why(node))


def _transpose(shapes: Shapes, node: Node, call: Call) -> None:
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(tuple(source[axis] for axis in call.integers("axes")), result, _why(node))


def _reshape(shapes: Shapes, node: Node, call: Call) -> None:
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


def _slice(shapes: Shapes, node: Node, call: Call) -> None:
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


def _concatenate(shapes: Shapes, node: Node, call: Call) -> None:
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


def _matmul(shapes: Shapes, node: Node, call: Call) -> None:
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


def _sorted_slice(shapes: Shapes, node: Node, call: Call) -> None:
    """Rows are free; the ranks that are taken may count from the row's end."""
    source, result = shapes.of[node.inputs[0]], shapes.of[node.outputs[0]]
    shapes.equate(source[:-1], result[:-1], _why(node))
    shapes.equations.pin(source[-1], _why(node))
    shapes.equations.pin(result[-1], _why(node))


def _attention(shapes: Shapes, node: Node, call: Call) -> None:
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


def _dequantize(shapes: Shapes, node: Node, call: Call) -> None:
    """Rows are free; a row's length hangs together with its words and groups, and is kept."""
    result = shapes.of[node.outputs[0]]
    for value in node.inputs:
        shapes.equate(shapes.of[value][:-1], result[:-1], _why(node))
        shapes.equations.pin(shapes.of[value][-1], _why(node))
    shapes.equations.pin(result[-1], _why(node))


def _quantized_matmul(shapes: Shapes, node: Node, call: Call) -> None:
    left, packed, *rest = (shapes.of[v] for v in node.inputs)
    result = shapes.of[node.outputs[0]]
    if not call.flag("transpose") or len(packed) != 2:
        _pinned(shapes, node, call)
        return
    shapes.equate(left[:-1], result[:-1], _why(node))
    shapes.equations.equate(packed[0], result[-1], _why(node))
    for parameters in rest:
        shapes.equations.equate(parameters[0], packed[0], _why(node))
    for operand in (left, packed, *rest):
        shapes.equations.pin(operand[-1], _why(node))


def _gather(shapes: Shapes, node: Node, call: Call) -> None:
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


def _gather_axis(shapes: Shapes, node: Node, call: Call) -> None:
    shapes.equate(shapes.of[node.inputs[1]], shapes.of[node.outputs[0]], _why(node))
    _beside_places(shapes, node, call, "read")


def _scatter_axis(shapes: Shapes, node: Node, call: Call) -> None:
    source, index, update = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], _why(node))
    shapes.equate(index, update, _why(node))
    _beside_places(shapes, node, call, "written")


def _beside_places(shapes: Shapes, node: Node, call: Call, done: str) -> None:
    """Let an array and the places in it agree on all axes but the one that they are along."""
    source, index = shapes.of[node.inputs[0]], shapes.of[node.inputs[1]]
    for axis, (a, b) in enumerate(zip(source, index, strict=True)):
        if axis != call.integer("axis"):
            shapes.equations.equate(a, b, _why(node))
        elif node.inputs[1] in shapes.graph.constant_of:
            shapes.equations.pin(a, f"it is {done} at places that are captured numbers")


def _slice_update(shapes: Shapes, node: Node, call: Call) -> None:
    source, part = (shapes.of[v] for v in node.inputs)
    shapes.equate(source, shapes.of[node.outputs[0]], _why(node))
    for axis, place in enumerate(slices(call)):
        size, given = call.inputs[0].shape[axis], call.inputs[1].shape[axis]
        if (place.start, given, place.step) == (0, size, 1):
            shapes.equations.equate(source[axis], part[axis], _why(node))
        else:
            shapes.equations.pin(source[axis], "a slice of it is updated at fixed places")
            shapes.equations.pin(part[axis], "a slice of it is updated at fixed places")


def _arange(shapes: Shapes, node: Node, call: Call) -> None:
    # Counting from 0 in steps of one follows any size; other ranges belong to their numbers.
    if (call.number("start"), abs(call.number("step"))) != (0.0, 1.0):
        shapes.pin(node.outputs[0], "a range has fixed ends")


def _free(shapes: Shapes, node: Node, call: Call) -> None:
    """Leave the output's dimensions to whatever reads them."""


_RELATIONS: dict[str, Relation] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "flatten": _reshape,
    "unflatten": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "full": _elementwise,
    "copy": _elementwise,
    "contiguous": _elementwise,
    "stop_gradient": _elementwise,
    "concatenate": _concatenate,
    "matmul": _matmul,
    "addmm": _matmul,
    "sorted_slice": _sorted_slice,
    "argsorted_slice": _sorted_slice,
    "quantized_matmul": _quantized_matmul,
    "dequantize": _dequantize,
    "gather": _gather,
    "gather_axis": _gather_axis,
    "scatter_axis": _scatter_axis,
    "slice_update": _slice_update,
    "arange": _arange,
    "attention": _attention,
    "softmax": _along_axis,
    "sort": _along_axis,
    "argsort": _along_axis,
}
_BY_KIND: dict[Kind, Relation] = {
    Kind.ELEMENTWISE: _elementwise,
    Kind.REDUCTION: _reduction,
    Kind.SCAN: _along_axis,
}
