"""Indexing ops as terms: which element they read, and which of several they choose."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.metal.kernel_ir.expression import Expr, OrderStat, computed
from kernelwright.metal.kernel_ir.index import Index, moved, within
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.pointwise.window import window_sum
from kernelwright.metal.lower.term.operator import NOUNS, intrinsic
from kernelwright.metal.lower.term.view import Coordinates

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder

Maker = Callable[["Builder", Node, Call, Coordinates], Expr]
"""Returns the element at some coordinates of an op's result."""


def _arange(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    dtype = computed(builder.graph.types[node.outputs[0]].dtype)
    start, step = call.number("start"), call.number("step")
    place = builder.apply(ScalarOp.CONVERT, dtype, "place", builder.terms.place(places[0]))
    if step != 1:
        factor = builder.number(step, dtype)
        place = builder.apply(ScalarOp.MULTIPLY, dtype, "place", place, factor)
    if start == 0:
        return place
    return builder.apply(ScalarOp.ADD, dtype, "place", place, builder.number(start, dtype))


def _dequantize(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return a digit of a packed word, scaled and moved as its group says."""
    packed, scales, biases = node.inputs
    bits, (*lead, column) = call.integer("bits"), places
    first = column * bits
    digit = _digit(builder, packed, lead, first, bits)
    dtype = computed(builder.graph.types[node.outputs[0]].dtype)
    level = builder.apply(ScalarOp.CONVERT, dtype, "level", digit)
    group = (*lead, column // call.integer("group_size"))
    scaled = builder.apply(
        ScalarOp.MULTIPLY, dtype, "scaled", level, builder.element(scales, group)
    )
    return builder.apply(ScalarOp.ADD, dtype, "weight", scaled, builder.element(biases, group))


def _digit(
    builder: "Builder", packed: ValueId, lead: Sequence[Index], first: Index, bits: int
) -> Expr:
    """Return the digit that begins at bit `first` of a row of packed words."""
    word = builder.element(packed, (*lead, first // 32))
    shift = builder.terms.place(first % 32)
    mask = builder.number((1 << bits) - 1, Dtype.UINT32)
    moved = builder.apply(ScalarOp.RIGHT_SHIFT, Dtype.UINT32, "moved", word, shift)
    if 32 % bits:
        # The digit may go on in the next word.
        last = builder.element(packed, (*lead, (first + (bits - 1)) // 32))
        moved = builder.apply(ScalarOp.FUNNEL_SHIFT, Dtype.UINT32, "moved", last, word, shift)
    return builder.apply(ScalarOp.BITWISE_AND, Dtype.UINT32, "digit", moved, mask)


def _gather_axis(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    source, index = node.inputs
    axis = call.integer("axis")
    extent = builder.graph.types[source].shape[axis]
    chosen = builder.element(index, places)
    if isinstance(chosen, OrderStat) and chosen.is_place and axis == len(places) - 1:
        visited = builder.element(source, (*places[:-1], Index.of(chosen.axis)))
        if (known := _ranked_element(builder, chosen, visited)) is not None:
            return known
    place = builder.dynamic(chosen, extent)
    return builder.element(source, tuple(place if i == axis else p for i, p in enumerate(places)))


def _ranked_element(builder: "Builder", chosen: OrderStat, visited: Expr) -> Expr | None:
    """Return what stands at a ranked place, if it is the key itself, or its opposite."""
    is_opposite = (
        builder.terms.apply(ScalarOp.NEGATIVE, visited.dtype, "opposite", visited) is chosen.key
    )
    if visited is not chosen.key and not is_opposite:
        return None
    element = builder.terms.ranked(
        chosen.key,
        chosen.axis,
        chosen.rank,
        is_largest_first=chosen.is_largest_first,
        is_place=False,
    )
    return (
        builder.apply(ScalarOp.NEGATIVE, element.dtype, visited.name, element)
        if is_opposite
        else element
    )


def _sorted_slice(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return the element of a rank, or its place, counted from the nearer end of its row."""
    rank = places[-1].constant
    if rank is None:
        raise UnsupportedError(f"{node.op} is read at a computed rank; leave it to MLX.")
    source = node.inputs[0]
    key, axis = builder.along(source, (len(places) - 1,), (*places[:-1], Index()))
    first, step = call.integer("start"), call.integer("step")
    last = first + step * (call.integer("count") - 1)
    is_low = max(first, last) <= axis.extent - 1 - min(first, last)
    place = first + step * rank
    return builder.terms.ranked(
        key,
        axis,
        place if is_low else axis.extent - 1 - place,
        is_largest_first=not is_low,
        is_place=node.op == "argsorted_slice",
    )


def _gather(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    source, *indices = node.inputs
    shape = builder.graph.types[source].shape
    lead = len(places) - len(shape)
    windows = list(places[lead:])
    for axis, index in zip(call.integers("axes"), indices, strict=True):
        rank = len(builder.graph.types[index].shape)
        start = builder.element(index, places[lead - rank : lead])
        windows[axis] = windows[axis] + builder.dynamic(start, shape[axis])
    return builder.element(source, tuple(windows))


def _concatenate(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    axis, stop = call.integer("axis"), 0
    first, last = places[axis].bounds
    edges: list[int] = []
    arms: list[Expr] = []
    for value in node.inputs:
        start, stop = stop, stop + builder.graph.types[value].shape[axis]
        if stop <= first or start > last:
            continue
        part = moved(within(places, axis, start, stop), axis, -start)
        with builder.inside((places[axis], start, stop)):
            arms.append(builder.element(value, part))
        edges.append(stop)
    return builder.terms.choose(places[axis], edges[:-1], arms)


def _pad(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    source, fill = node.inputs
    shape, inside = builder.graph.types[source].shape, places
    sides = list(zip(call.integers("axes"), call.integers("low"), strict=True))
    for axis, low in sides:
        inside = moved(within(inside, axis, low, low + shape[axis]), axis, -low)
    filler = builder.element(fill, ())
    with builder.inside(*((places[axis], low, low + shape[axis]) for axis, low in sides)):
        term = builder.element(source, inside)
    for axis, low in sides:
        edges, arms = [low + shape[axis]], [term, filler]
        if low:
            edges, arms = [low, *edges], [filler, *arms]
        if edges[-1] == builder.graph.types[node.outputs[0]].shape[axis]:
            edges, arms = edges[:-1], arms[:-1]
        term = builder.terms.choose(places[axis], edges, arms)
    return term


def _slice_update(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    whole, part = node.inputs
    shape = builder.graph.types[whole].shape
    spans = [range(*p.indices(n)) for p, n in zip(slices(call), shape, strict=True)]
    inside = places
    for axis, span in enumerate(spans):
        first, stop, stride = _upwards(span)
        inside = moved(within(inside, axis, first, stop), axis, -first)
        place = inside[axis] // stride
        # What is updated from behind takes the last of the new elements first.
        place = place * -1 + (len(span) - 1) if span.step < 0 else place
        inside = (*inside[:axis], place, *inside[axis + 1 :])
    kept = builder.element(whole, places)
    ends = [_upwards(span) for span in spans]
    with builder.inside(*((p, b, e) for p, (b, e, _) in zip(places, ends, strict=True))):
        term = _combined(builder, node, kept, builder.element(part, inside))
    for axis, (start, stop, stride) in enumerate(ends):
        if stride > 1:
            term = builder.terms.choose((places[axis] + -start) % stride, [1], [term, kept])
        edges, arms = [stop], [term, kept]
        if start:
            edges, arms = [start, *edges], [kept, *arms]
        if stop == shape[axis]:
            edges, arms = edges[:-1], arms[:-1]
        term = builder.terms.choose(places[axis], edges, arms)
    return term


def _upwards(span: range) -> tuple[int, int, int]:
    """Return the first place, the end and the step of the same places in rising order."""
    rising = span if span.step > 0 else span[::-1]
    return rising.start, max(rising.start, rising.stop), rising.step


def _scatter_axis(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return what one place of a row was given, or what stands elsewhere."""
    whole, index, part = node.inputs
    axis = call.integer("axis")
    only = (*places[:axis], Index(), *places[axis + 1 :])
    extent = builder.graph.types[whole].shape[axis]
    place = builder.from_end(builder.element(index, only), extent)
    here = builder.apply(
        ScalarOp.CONVERT,
        place.dtype,
        "place",
        builder.terms.place(places[axis]),
    )
    is_given = builder.apply(ScalarOp.EQUAL, Dtype.BOOL, "is_given", here, place)
    kept = builder.element(whole, places)
    given = _combined(builder, node, kept, builder.element(part, only))
    return builder.apply(ScalarOp.SELECT, given.dtype, "choice", is_given, given, kept)


def _combined(builder: "Builder", node: Node, kept: Expr, given: Expr) -> Expr:
    """Return an update as it is joined with what stands at its place."""
    op = COMBINING.get(str(node.attribute("reduce")))
    if op is None:
        return given
    known = intrinsic(op, [kept.dtype, given.dtype], given.dtype)
    return builder.apply(known.op, given.dtype, NOUNS[op], kept, given)


INDEXED: dict[str, Maker] = {
    "arange": _arange,
    "concatenate": _concatenate,
    "convolution": window_sum,
    "dequantize": _dequantize,
    "gather": _gather,
    "gather_axis": _gather_axis,
    "pad": _pad,
    "scatter_axis": _scatter_axis,
    "sorted_slice": _sorted_slice,
    "argsorted_slice": _sorted_slice,
    "slice_update": _slice_update,
}
"""How each indexing op is read."""
