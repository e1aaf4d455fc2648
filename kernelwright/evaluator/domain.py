"""What values an input may take, read off the operations that consume it."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.jump import is_jump
from kernelwright.ir.ops import Kind, op_named

_POSITIVE = frozenset({"log", "log2", "log10", "sqrt", "rsqrt"})
_INDEX_PLACES = {
    "gather": (1, None),
    "gather_axis": (1, 2),
    "scatter": (1, -1),
    "scatter_axis": (1, 2),
    "gather_mm": (2, None),
    "gather_qmm": (-2, None),
}
"""Ops that read indices, with the slice of `Node.inputs` that holds them."""
_SHIFTS = ("left_shift", "right_shift")
_DIVISIONS = ("floor_divide", "remainder", "divmod")
_PACKED_PLACES = {"dequantize": 0, "quantized_matmul": 1, "gather_qmm": 1, "right_shift": 0}
"""Ops that read packed words, with their place in `Node.inputs`."""


_SCALES = {"mxfp4": (122, 129), "mxfp8": (122, 129), "nvfp4": (0x28, 0x47)}
"""Bytes of scales about one: exponents, or eight-bit floats; beyond them everything overflows."""
_EIGHT_BIT_NAN = 0x40404040
"""The highest bit of each exponent of four eight-bit floats."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The range of one input.

    `index_limit` bounds indices and shifts, `is_positive` keeps logs defined, `is_divisor` keeps
    integer divisions so, and `is_packed` asks for every bit of an integer: a small number would
    leave all but the first packed digits zero.
    """

    index_limit: int | None = None
    is_positive: bool = False
    is_divisor: bool = False
    is_packed: bool = False
    levels: tuple[int, int] | None = None
    """The smallest and the largest value of a byte that stands for a scale."""
    unset: int = 0
    """Bits that no packed word has: digits that are floats would be NaN."""


def domains_of(graph: Graph) -> tuple[Domain, ...]:
    """Return one domain per input of the graph."""
    return tuple(_domain(graph, value) for value in graph.inputs)


def _domain(graph: Graph, value: ValueId) -> Domain:
    limits: list[int] = []
    positive = divides = packed = False
    levels, unset = None, 0
    for index, place in _uses(graph, value):
        node = graph.nodes[index]
        operand = graph.types[node.inputs[place]].dtype
        if place in _index_places(node) and graph.types[value].dtype.is_integer:
            limits.append(_limit(graph, node, place))
        if node.op in _SHIFTS and place == 1:
            limits.append(8 * operand.itemsize)
        divides = divides or (node.op in _DIVISIONS and place == 1 and operand.is_integer)
        positive = positive or _needs_positive(graph, node)
        packed = packed or _PACKED_PLACES.get(node.op) == place
        mode = str(node.attribute("mode")) if node.has("mode") else ""
        levels = _SCALES.get(mode) if place == 2 and mode in _SCALES else levels
        unset |= _EIGHT_BIT_NAN if place == 1 and mode == "mxfp8" else 0
    limit = min(limits) if limits else None
    return Domain(limit, positive, divides, packed, levels, unset)


_SIGN_KEEPING = frozenset({"sum", "mean", "max", "min", "multiply", "divide", "add"})
"""Ops whose result is positive where what they read is."""


def _needs_positive(graph: Graph, node: Node) -> bool:
    """Say whether a node takes a logarithm or a root of what it reads, or of its sum or mean."""
    while node.op in _SIGN_KEEPING:
        others = [v for v in node.inputs[1:] if not _is_positive_constant(graph, v)]
        readers = graph.consumers_of[node.outputs[0]]
        if others or len(readers) != 1:
            return False
        node = graph.nodes[readers[0]]
        while _only_moves(node) and len(graph.consumers_of[node.outputs[0]]) == 1:
            node = graph.nodes[graph.consumers_of[node.outputs[0]][0]]
    return node.op in _POSITIVE


def _is_positive_constant(graph: Graph, value: ValueId) -> bool:
    producer = graph.producer_of.get(value)
    while producer is not None and graph.nodes[producer].op in ("broadcast", "reshape"):
        value = graph.nodes[producer].inputs[0]
        producer = graph.producer_of.get(value)
    constant = graph.constant_of.get(value)
    return constant is not None and bool((constant.array.astype(float) > 0).all())


def _index_places(node: Node) -> range:
    start, stop = _INDEX_PLACES.get(node.op, (0, 0))
    return range(len(node.inputs))[start:stop]


def _limit(graph: Graph, node: Node, place: int) -> int:
    """Count the elements along the axis that an index input addresses."""
    shape = graph.types[node.inputs[0]].shape
    if node.has("axes"):
        axes = node.attribute("axes")
        axis = axes[place - 1] if isinstance(axes, tuple) else 0
    else:
        axis = node.attribute("axis") if node.has("axis") else 0
    return shape[axis] if isinstance(axis, int) and shape else min(shape, default=1)


def _uses(graph: Graph, value: ValueId) -> Iterator[tuple[int, int]]:
    """Yield (node, input place) for each use, looking through what only passes it on."""
    waiting, seen = [value], {value}
    while waiting:
        current = waiting.pop()
        for index in graph.consumers_of[current]:
            node = graph.nodes[index]
            yield from ((index, i) for i, operand in enumerate(node.inputs) if operand == current)
            for output in node.outputs if _only_moves(node) or _keeps(graph, node, current) else ():
                if output not in seen:
                    seen.add(output)
                    waiting.append(output)


def _keeps(graph: Graph, node: Node, value: ValueId) -> bool:
    """Say whether a selection may pass an integer on; of floats both of its arms must be seen."""
    is_integer = graph.types[value].dtype.is_integer
    return is_integer and node.op == "select" and value in node.inputs[1:]


def _only_moves(node: Node) -> bool:
    return node.op == "cast" or op_named(node.op).kind is Kind.VIEW


def accumulation_length(graph: Graph) -> int:
    """Return the largest number of terms that one output element of any node sums up."""
    return max((_terms(graph, node) for node in graph.nodes), default=1)


def _terms(graph: Graph, node: Node) -> int:
    kind = op_named(node.op).kind
    if kind not in (Kind.REDUCTION, Kind.SCAN, Kind.CONTRACTION):
        return 1
    first, made = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if kind is Kind.REDUCTION and made.size < first.size:
        return first.size // max(1, made.size)
    return max((*first.shape[-1:], 1))


def has_jump_after_rounding(graph: Graph) -> bool:
    """Say whether a discontinuous op reads computed values, so that one rounding may flip it."""
    exact = set(graph.inputs) | set(graph.constant_of)
    for node in graph.nodes:
        reads_exact = all(v in exact for v in node.inputs)
        if is_jump(graph, node) and not reads_exact:
            return True
        if reads_exact and _only_moves(node) and not _narrows(graph, node):
            exact.update(node.outputs)
    return False


def _narrows(graph: Graph, node: Node) -> bool:
    """A cast that may round; widening half to float does not."""
    before, after = graph.types[node.inputs[0]].dtype, graph.types[node.outputs[0]].dtype
    return after is not before and not (before.is_float and after is Dtype.FLOAT32)
