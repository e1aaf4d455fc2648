"""Seeing views in what reads or writes an array at one place that is a number."""

from collections.abc import Sequence

import numpy as np

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.match.placement import broadcast_placement, placed
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource
from kernelwright.ir.passes.view import reshape

_Bounds = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a window starts and stops along every axis."""


def _fixed_gather(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn `x[3]`, which MLX gathers, into a slice."""
    if node.op != "gather":
        return None
    source, *indices = node.inputs
    bounds = _window(builder, call, indices, call.integers("slice_sizes"))
    if bounds is None:
        return None
    start, stop = bounds
    ones = (1,) * len(start)
    part = builder.apply("slice", source, start=start, stop=stop, strides=ones)
    return [reshape(builder, part, call.outputs[0].shape)]


def _fixed_scatter(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn a scatter of one window, the gradient of `x[3]`, into an update of a slice."""
    if node.op != "scatter":
        return None
    source, *indices, updates = node.inputs
    rank = len(call.inputs[0].shape)
    sizes = call.inputs[-1].shape[len(call.inputs[-1].shape) - rank :]
    bounds = _window(builder, call, indices, sizes)
    if bounds is None:
        return None
    start, stop = bounds
    attributes = {"start": start, "stop": stop, "strides": (1,) * rank}
    part = reshape(builder, updates, sizes)
    reduce = call.text("reduce")
    return [builder.apply("slice_update", source, part, reduce=reduce, **attributes)]


def _window(
    builder: GraphBuilder, call: Call, indices: Sequence[ValueId], sizes: tuple[int, ...]
) -> _Bounds | None:
    """Return the only window that indices choose, if they are numbers and it lies inside."""
    shape, start = call.inputs[0].shape, [0] * len(sizes)
    for axis, value in zip(call.integers("axes"), indices, strict=True):
        constant = builder.constant_at(value)
        if constant is None or constant.type.size != 1:
            return None
        place = int(constant.array.reshape(-1)[0])
        start[axis] = place + shape[axis] if place < 0 else place
    stop = tuple(begin + size for begin, size in zip(start, sizes, strict=True))
    is_inside = all(b >= 0 and e <= n for b, e, n in zip(start, stop, shape, strict=True))
    return (tuple(start), stop) if is_inside else None


def _gather_along(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn `x[arange(n)[:, None], i]` into what `mx.take_along_axis` reads along one axis."""
    if node.op != "gather" or not call.inputs[0].shape:
        return None
    source, *indices = node.inputs
    shape, every = call.inputs[0].shape, tuple(range(len(call.inputs[0].shape)))
    places = call.inputs[1].shape if indices else ()
    is_each = call.integers("axes") == every and set(call.integers("slice_sizes")) == {1}
    if not is_each or len(places) != len(shape):
        return None
    free = [axis for axis in every if not _counts_along(builder, indices[axis], axis)]
    kept = [axis for axis in every if axis not in free]
    if len(free) != 1 or any(places[axis] != shape[axis] for axis in kept):
        return None
    made = builder.apply("gather_axis", source, _narrow(builder, indices[free[0]]), axis=free[0])
    return [reshape(builder, made, call.outputs[0].shape)]


def _counts_along(builder: GraphBuilder, value: ValueId, axis: int) -> bool:
    """Say whether a value is its own place along an axis."""
    value = _narrow(builder, value)
    shape = builder.types[value].shape
    counted, places = placed(BuilderSource(builder), value)
    node = builder.made_by(counted, "arange")
    if node is None or (node.attribute("start"), node.attribute("step")) != (0.0, 1.0):
        return False
    alone = [n if i == axis else 1 for i, n in enumerate(shape)]
    is_whole = builder.types[counted].size == shape[axis]
    return is_whole and places == broadcast_placement(alone, shape)


def _narrow(builder: GraphBuilder, index: ValueId) -> ValueId:
    """Return an index before it was cast to wider integers."""
    node = builder.made_by(index, "cast")
    if node is None:
        return index
    before, after = builder.types[node.inputs[0]].dtype, builder.types[index].dtype
    is_kept = before.is_integer and after.is_integer and np.can_cast(before.numpy, after.numpy)
    return node.inputs[0] if is_kept else index


RULES: tuple[Rule, ...] = (_fixed_gather, _fixed_scatter, _gather_along)
