"""Convolutions of every channel by itself: a sum of few products, tap by tap."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Node
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.metal.family.depthwise_conv import is_window
from kernelwright.metal.kernel_ir.expression import Expr
from kernelwright.metal.kernel_ir.index import Index
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.term.reduction import folded
from kernelwright.metal.lower.term.view import Coordinates

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder


@dataclass(frozen=True, slots=True)
class _Reach:
    """Where a tap reads along one axis."""

    place: Index
    inside: tuple[Expr, ...] = ()
    """What has to be true for it to meet the array at all."""


def window_sum(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return one element of a convolution.

    Raises:
        UnsupportedError: it joins channels, or has more taps than a kernel should write out.
    """
    if not is_window(builder.graph, node):
        raise UnsupportedError(
            f"a convolution of {call.inputs[0]} with {call.inputs[1]} is no small window of a "
            "channel; leave it to MLX."
        )
    source, weight = node.inputs
    batch, *outer, filter_ = places
    shape, window = builder.graph.types[source].shape, builder.graph.types[weight].shape
    filters = window[0] // call.integer("groups")
    products: list[Expr] = []
    for tap in itertools.product(*map(range, window[1:-1])):
        reaches = [
            _reach(
                builder,
                outer[axis] * call.integers("strides")[axis]
                + number * call.integers("kernel_dilation")[axis],
                call.integers("padding_low")[axis],
                shape[axis + 1],
            )
            for axis, number in enumerate(tap)
        ]
        read = (batch, *(reach.place for reach in reaches), filter_ // filters)
        value = _met(builder, builder.element(source, read), reaches)
        turned = [n - 1 - t for t, n in zip(tap, window[1:-1], strict=True)]
        number = turned if call.flag("flip") else tap
        factor = builder.element(weight, (filter_, *map(Index.of, number), Index()))
        products.append(builder.apply(ScalarOp.MULTIPLY, value.dtype, "product", value, factor))
    return folded(builder, "add", products)


def _reach(builder: "Builder", place: Index, low: int, extent: int) -> _Reach:
    """Return where a place of an array with `low` zeros before it is read.

    A place in the frame reads the array's edge instead, so that neighbours stay one access.
    """
    first, last = place.bounds
    if first >= low and last < low + extent:
        return _Reach(place + -low)
    term, kept, inside = builder.terms.place(place), builder.terms.place(place), list[Expr]()
    if first < low:
        bound = builder.number(low, Dtype.UINT32)
        inside.append(builder.apply(ScalarOp.GREATER_EQUAL, Dtype.BOOL, "is_inside", term, bound))
        kept = builder.apply(ScalarOp.MAXIMUM, Dtype.UINT32, "edge", kept, bound)
    if last >= low + extent:
        end, last_inside = (builder.number(low + extent - n, Dtype.UINT32) for n in (0, 1))
        inside.append(builder.apply(ScalarOp.LESS, Dtype.BOOL, "is_inside", term, end))
        kept = builder.apply(ScalarOp.MINIMUM, Dtype.UINT32, "edge", kept, last_inside)
    if low:
        before = builder.number(low, Dtype.UINT32)
        kept = builder.apply(ScalarOp.SUBTRACT, Dtype.UINT32, "edge", kept, before)
    return _Reach(builder.dynamic(kept, extent), tuple(inside))


def _met(builder: "Builder", value: Expr, reaches: list[_Reach]) -> Expr:
    """Return what a tap reads: zero where it misses the array."""
    asked = [condition for reach in reaches for condition in reach.inside]
    if not asked:
        return value
    inside = asked[0]
    for other in asked[1:]:
        inside = builder.apply(ScalarOp.LOGICAL_AND, Dtype.BOOL, "is_inside", inside, other)
    zero = builder.number(0.0, value.dtype)
    return builder.apply(ScalarOp.SELECT, value.dtype, "element", inside, value, zero)
