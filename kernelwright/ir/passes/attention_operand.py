"""What a matrix product reads of an attention: heads as they are, without repeats and scales."""

import math
from collections.abc import Sequence

from kernelwright.ir.graph import ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.attention import Factor, unscaled
from kernelwright.ir.match.placement import broadcast_placement, placed
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource, cast

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

    `is_swapped` says that the product reads them as [.., D, S]. What was cast after it was repeated
    is cast before.
    """
    dtypes: list[Dtype] = []
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
        elif node.op == "cast" and builder.types[node.inputs[0]].dtype.is_float:
            dtypes.insert(0, builder.types[value].dtype)
            value = node.inputs[0]
        elif (single := _unrepeated(builder, value, 1)) is not None:
            value = single
        else:
            break
    for dtype in dtypes:
        value = cast(builder, value, dtype)
    shape = builder.types[value].shape
    if len(shape) == 5 and shape[2] == 1:
        value = shaped(builder, value, (*shape[:2], *shape[3:]))
    if is_swapped:
        value = _swapped(builder, value)
    shape = builder.types[value].shape
    return shaped(builder, value, (*(1,) * (4 - len(shape)), *shape)) if len(shape) < 5 else None


def _unrepeated(builder: GraphBuilder, value: ValueId, axis: int) -> ValueId | None:
    """Return heads before each was repeated for its queries, along an axis or one of its own."""
    shape = builder.types[value].shape
    if len(shape) not in (4, 5):
        return None
    source, places = placed(BuilderSource(builder), value, through_casts=True)
    # Heads and their queries may stand along two axes.
    times = len(shape) - 3
    heads = math.prod(shape[axis : axis + times])
    lead, rest = shape[:axis], shape[axis + times :]
    kept = heads * builder.types[source].size // builder.types[value].size
    if kept == heads or not kept or heads % kept:
        return None
    apart = (*lead, kept, heads // kept, *rest)
    if places != broadcast_placement((*lead, kept, 1, *rest), apart):
        return None
    single = shaped(builder, source, (*lead, kept, *(1,) * (times - 1), *rest))
    return cast(builder, single, builder.types[value].dtype)


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
