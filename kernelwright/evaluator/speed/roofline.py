"""The least that a task must move and compute, however clever the kernel."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kernelwright.evaluator.speed.box_union import union_size
from kernelwright.evaluator.speed.indexed_read import least_chosen, least_indexed
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Domain, Kind, Op, op_named
from kernelwright.ir.ops.box import Box, whole_box
from kernelwright.ir.passes.duplicate import merge_common_subexpressions

_WHOLE = frozenset({Kind.SORT, Kind.SCAN, Kind.CONTRACTION})


def least_bytes(graph: Graph) -> int:
    """Return the bytes that every right kernel reads or writes.

    Outputs are written whole. An input counts where no kernel can know its elements to be
    irrelevant: not what is sliced away, or chosen against by a mask. Of what is gathered from no
    more is certain than one window; the indices count, and so does what a mask that hangs on no
    input leaves.
    """
    return sum(least_bytes_read(graph)) + sum(t.nbytes for t in graph.output_types)


def least_bytes_read(graph: Graph) -> tuple[int, ...]:
    """Return for each input the bytes of it that every right kernel reads."""
    needed = _needed_elements(graph)
    return tuple(n * t.dtype.itemsize for n, t in zip(needed, graph.input_types, strict=True))


def least_operations(graph: Graph) -> int:
    """Return the float operations of the contractions whose every element shows in an output.

    Other arithmetic can be arranged in ways that need less of it.
    """
    shown = set(graph.outputs)
    total = 0
    for node in reversed(graph.nodes):
        if not shown.intersection(node.outputs):
            continue
        op = op_named(node.op)
        if op.kind is Kind.CONTRACTION:
            if _is_whole(graph, node) and all(_is_varied(graph, v) for v in node.inputs[:2]):
                total += op.flops(Call.of(graph, node))
        elif op.kind in (Kind.ELEMENTWISE, Kind.VIEW) and not _is_choice(graph, node):
            size = graph.types[node.outputs[0]].size
            shown.update(v for v in node.inputs if graph.types[v].size == size)
    return total


@lru_cache(maxsize=32)
def _needed_elements(graph: Graph) -> tuple[int, ...]:
    """Count for each input how many of its elements every kernel must know."""
    # Each reader of a view has its own copy of it; slices of one view are slices of one array.
    graph = merge_common_subexpressions(graph)
    masked = _masked_values(graph)
    counts = {v: graph.types[v].size for v in graph.outputs}
    boxes = {v: [whole_box(graph.types[v].shape)] for v in graph.outputs}

    def needed(value: ValueId) -> int:
        return max(counts.get(value, 0), union_size(boxes.get(value, ())))

    for node in reversed(graph.nodes):
        wanted = max(map(needed, node.outputs), default=0)
        if not wanted:
            continue
        for place, value in enumerate(node.inputs):
            type_ = graph.types[value]
            count = min(type_.size, _read(graph, node, place, wanted, masked))
            counts[value] = max(counts.get(value, 0), count)
            found = boxes.setdefault(value, [])
            if count == type_.size:
                found.append(whole_box(type_.shape))
            elif count == wanted:
                found += _boxes_read(graph, node, place, boxes)
    return tuple(map(needed, graph.inputs))


def _boxes_read(
    graph: Graph, node: Node, place: int, boxes: Mapping[ValueId, Sequence[Box]]
) -> Iterator[Box]:
    """Yield what is read of an operand for boxes of the outputs, where it is boxes too.

    The op reads of the operand as many elements as are wanted.
    """
    op, call = op_named(node.op), Call.of(graph, node)
    shape = call.inputs[place].shape
    keeps_places = op.kind in (Kind.ELEMENTWISE, Kind.VIEW) and not op.behaviour.overlaps
    for number, value in enumerate(node.outputs):
        for box in boxes.get(value, ()):
            if op.box_shown is not None:
                yield op.box_shown(call, number, box)
            elif keeps_places and shape == call.outputs[0].shape:
                yield box


def _read(graph: Graph, node: Node, place: int, wanted: int, masked: frozenset[ValueId]) -> int:
    """Return how many elements of one operand `wanted` elements of the output depend on."""
    op, made = op_named(node.op), graph.types[node.outputs[0]].size
    size = graph.types[node.inputs[place]].size
    is_whole = wanted == made
    if op.kind is Kind.VIEW and not op.behaviour.overlaps:
        # What is repeated is read once.
        return wanted * min(size, made) // max(made, 1)
    others = [v for i, v in enumerate(node.inputs) if i != place]
    if op.behaviour.chooses and place > 0:
        return least_chosen(graph, node, place) if is_whole else 0
    if any(v in masked for v in others):
        return 0
    if op.behaviour.absorbs and not graph.types[node.inputs[place]].dtype.is_float:
        return 0
    if op.kind is Kind.ELEMENTWISE:
        return wanted // _parts_of_element(graph, node)
    if op.kind is Kind.REDUCTION:
        return 0 if op.behaviour.makes_bool else wanted * size // max(made, 1)
    if op.kind is Kind.CONTRACTION and not _is_whole(graph, node):
        return least_indexed(graph, node, place, wanted)
    if op.kind in _WHOLE or _joins_parts(op):
        return size if is_whole else 0
    return least_indexed(graph, node, place, wanted)


def _joins_parts(op: Op) -> bool:
    """Say whether an op writes all of its operands side by side."""
    is_copy = op.kind is Kind.INDEXING and op.flops_per_element == 0
    return is_copy and op.behaviour.data_places is None


def _parts_of_element(graph: Graph, node: Node) -> int:
    """Return of how many parts of each element the op may read one: half a complex, a low byte."""
    read, made = (graph.types[v].dtype for v in (node.inputs[0], node.outputs[0]))
    if read.is_complex and not made.is_complex:
        return 2
    if read.is_integer and made.is_integer:
        return max(read.itemsize // made.itemsize, 1)
    return 1


def _is_whole(graph: Graph, node: Node) -> bool:
    """Say whether a contraction multiplies all of its operands: no index, mask or step decides."""
    op = op_named(node.op)
    if op.multiplies_all is not None:
        return op.multiplies_all(Call.of(graph, node))
    return op.meaning is not None and Domain.INDEX not in op.behaviour.domains


def _is_varied(graph: Graph, value: ValueId) -> bool:
    """Say whether a value's elements are all its own: no repetition, and no constant."""
    while value not in graph.inputs:
        node = next((n for n in graph.nodes if value in n.outputs), None)
        if node is None:
            return False
        kind = op_named(node.op).kind
        if kind is Kind.VIEW and graph.types[node.inputs[0]].size < graph.types[value].size:
            return False
        if kind is Kind.ELEMENTWISE:
            size = graph.types[value].size
            alike = [v for v in node.inputs if graph.types[v].size == size]
            return any(_is_varied(graph, v) for v in alike)
        if kind is not Kind.VIEW:
            return bool(node.inputs)
        value = node.inputs[0]
    return True


def _masked_values(graph: Graph) -> frozenset[ValueId]:
    """Return the values that hold a mask's choice: what they meet may be known to be irrelevant."""
    found: set[ValueId] = set()
    for node in graph.nodes:
        if _is_choice(graph, node) or found.intersection(node.inputs):
            found.update(node.outputs)
    return frozenset(found)


def _is_choice(graph: Graph, node: Node) -> bool:
    return op_named(node.op).behaviour.chooses or graph.types[node.outputs[0]].dtype is Dtype.BOOL
