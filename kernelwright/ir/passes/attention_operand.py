"""What a matrix product reads of an attention: heads as they are, without repeats and scales."""

import math
from collections.abc import Sequence

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.match.attention import Factor, unscaled
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource

_MOVING = ("reshape", "transpose", "broadcast")


def unscaled_below(builder: GraphBuilder, value: ValueId) -> tuple[Factor, ValueId]:
    """Take factors away from a value that views may have moved after it was scaled."""
    scale, value = unscaled(BuilderSource(builder), value)
    node = builder.producer(value)
    if node is None or node.op not in _MOVING:
        return scale, value
    below, source = unscaled_below(builder, node.inputs[0])
    if source == node.inputs[0]:
        return scale, value
    moved = builder.apply(node.op, source, **dict(node.attributes))
    return scale.times(below), moved


def query_heads(builder: GraphBuilder, value: ValueId, key_heads: int) -> ValueId:
    """Return queries as [B, H, L, D].

    Queries of one key head may have stood in one matrix, or heads along two axes.
    """
    shape = builder.types[value].shape
    node = builder.made_by(value, "reshape")
    before = builder.types[node.inputs[0]].shape if node is not None else ()
    if (
        node is not None
        and len(shape) == len(before) == 4
        and (before[0], before[3]) == (shape[0], shape[3])
        and shape[1] == key_heads
        and before[1] % key_heads == 0
    ):
        return node.inputs[0]
    if len(shape) == 5:
        return shaped(builder, value, (shape[0], shape[1] * shape[2], *shape[3:]))
    return shaped(builder, value, (*(1,) * (4 - len(shape)), *shape))


def key_heads(builder: GraphBuilder, value: ValueId, *, is_swapped: bool) -> ValueId | None:
    """Return keys or values as [B, H / g, S, D], without what repeats a head for its queries.

    `is_swapped` says that the product reads them as [.., D, S].
    """
    while (node := builder.producer(value)) is not None:
        if node.op == "transpose":
            axes = Call(dict(node.attributes), (), ()).integers("axes")
            rank = len(axes)
            if axes == (*range(rank - 2), rank - 1, rank - 2):
                value, is_swapped = node.inputs[0], not is_swapped
                continue
            single = _unrepeated(builder, node.inputs[0], axes[1]) if rank == 4 else None
            if single is None:
                break
            value = builder.apply("transpose", single, axes=axes)
        elif (single := _unrepeated(builder, value, 1)) is not None:
            value = single
        elif node.op == "broadcast" and _is_spread(builder, node):
            value = node.inputs[0]
        else:
            break
    shape = builder.types[value].shape
    if len(shape) == 5 and shape[2] == 1:
        value = shaped(builder, value, (*shape[:2], *shape[3:]))
    if is_swapped:
        value = _swapped(builder, value)
    shape = builder.types[value].shape
    return shaped(builder, value, (*(1,) * (4 - len(shape)), *shape)) if len(shape) < 5 else None


def _unrepeated(builder: GraphBuilder, value: ValueId, axis: int) -> ValueId | None:
    """Return what `mx.repeat`, or a broadcast and a reshape, repeat along an axis of heads."""
    node, shape = builder.made_by(value, "reshape"), builder.types[value].shape
    spread = builder.made_by(node.inputs[0], "broadcast") if node is not None else None
    if spread is None or len(shape) != 4:
        return None
    before, after = (builder.types[v].shape for v in (spread.inputs[0], spread.outputs[0]))
    lead, rest = shape[:axis], shape[axis + 1 :]
    heads, times = after[axis : axis + 2] if len(after) == 5 else (0, 0)
    if before != (*lead, heads, 1, *rest) or after != (*lead, heads, times, *rest):
        return None
    return shaped(builder, spread.inputs[0], (*lead, heads, *rest))


def _is_spread(builder: GraphBuilder, node: Node) -> bool:
    """Say whether one axis of heads is all that a broadcast repeats."""
    before, after = (builder.types[v].shape for v in (node.inputs[0], node.outputs[0]))
    place = {4: 1, 5: 2}.get(len(after))
    if len(before) != len(after) or place is None:
        return False
    pairs = zip(before, after, strict=True)
    return all(a == b or (i == place and a == 1) for i, (a, b) in enumerate(pairs))


def _swapped(builder: GraphBuilder, value: ValueId) -> ValueId:
    """Return a value with its last two axes exchanged, in one transpose with an earlier one."""
    node = builder.made_by(value, "transpose")
    rank = len(builder.types[value].shape)
    axes: Sequence[int] = range(rank)
    if node is not None:
        axes, value = Call(dict(node.attributes), (), ()).integers("axes"), node.inputs[0]
    return builder.apply("transpose", value, axes=(*axes[:-2], axes[-1], axes[-2]))


def shaped(builder: GraphBuilder, value: ValueId, shape: tuple[int, ...]) -> ValueId:
    """Return a value in another shape, of as many elements."""
    assert math.prod(shape) == builder.types[value].size
    node = builder.made_by(value, "reshape")
    source = node.inputs[0] if node is not None else value
    if builder.types[source].shape == shape:
        return source
    if builder.types[value].shape == shape:
        return value
    return builder.apply("reshape", source, shape=shape)
