"""Seeing `mx.dequantize` in the shifts into which a trace on the CPU takes it apart."""

from collections.abc import Sequence

import numpy as np

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.view import reshape

_GROUP_SIZES = (32, 64, 128)
_VIEWS = frozenset({"reshape", "broadcast"})


def _dequantize(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn `digits * scales + biases` over groups into one op, whose replay makes them again."""
    product = builder.made_by(node.inputs[0], "multiply") if node.op == "add" else None
    levels = _under_views(builder, product.inputs[0]) if product else None
    cast = None if levels is None else builder.made_by(levels, "cast")
    unpacked = cast and _unpacked(builder, cast.inputs[0])
    if not product or not unpacked or call.outputs[0].shape[-1] not in _GROUP_SIZES:
        return None
    packed, bits = unpacked
    lead, group_size = builder.types[packed].shape[:-1], call.outputs[0].shape[-1]
    columns = builder.types[packed].shape[-1] * 32 // bits
    wanted = TensorType((*lead, columns // group_size), call.outputs[0].dtype)
    scales, biases = (_per_group(builder, v, wanted) for v in (product.inputs[1], node.inputs[1]))
    if scales is None or biases is None or builder.types[product.inputs[0]].dtype != wanted.dtype:
        return None
    (made,) = builder.add(
        "dequantize",
        (packed, scales, biases),
        [TensorType((*lead, columns), wanted.dtype)],
        (("group_size", group_size), ("bits", bits)),
    )
    return (reshape(builder, made, call.outputs[0].shape),)


def _per_group(builder: GraphBuilder, value: ValueId, wanted: TensorType) -> ValueId | None:
    """Return what a value repeats along the groups, if it has one element a group."""
    spread = builder.made_by(value, "broadcast")
    if spread is None or builder.types[spread.inputs[0]].shape[-1:] != (1,):
        return None
    source = _under_views(builder, spread.inputs[0])
    if builder.types[source].size != wanted.size or builder.types[source].dtype != wanted.dtype:
        return None
    return reshape(builder, source, wanted.shape)


def _unpacked(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, int] | None:
    """Return the packed words and the bits of each digit, if a value is all their digits."""
    value = _under_views(builder, value)
    parts = builder.made_by(value, "concatenate")
    return _in_words(builder, parts) if parts else _across_words(builder, value)


def _in_words(builder: GraphBuilder, parts: Node) -> tuple[ValueId, int] | None:
    """Read digits that never leave their word: one shift up and one down for each."""
    count = len(parts.inputs)
    bits = 32 // count
    sources: set[ValueId] = set()
    for place, part in enumerate(parts.inputs):
        down = builder.made_by(_under_views(builder, part), "right_shift")
        up = down and builder.made_by(down.inputs[0], "left_shift")
        if not down or not up or _number(builder, down.inputs[1]) != 32 - bits:
            return None
        if _number(builder, up.inputs[1]) != 32 - bits * (place + 1):
            return None
        sources.add(up.inputs[0])
    rank = len(builder.types[parts.outputs[0]].shape)
    if len(sources) != 1 or dict(parts.attributes)["axis"] != rank - 1 or 32 % count:
        return None
    return sources.pop(), bits


def _across_words(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, int] | None:
    """Read digits that may go on in the next word: single bits, weighed and summed."""
    total = builder.made_by(value, "sum")
    weighed = total and builder.made_by(total.inputs[0], "left_shift")
    flags = weighed and builder.made_by(_under_views(builder, weighed.inputs[0]), "bitwise_and")
    moved = flags and builder.made_by(flags.inputs[0], "right_shift")
    if not total or not weighed or not flags or not moved or _number(builder, flags.inputs[1]) != 1:
        return None
    shape = builder.types[weighed.outputs[0]].shape
    is_each_bit = _counts_to(builder, moved.inputs[1], 32)
    is_each_weight = _counts_to(builder, weighed.inputs[1], shape[-1])
    if not is_each_bit or not is_each_weight or dict(total.attributes)["axes"] != (len(shape) - 1,):
        return None
    return _under_views(builder, moved.inputs[0]), shape[-1]


def _under_views(builder: GraphBuilder, value: ValueId) -> ValueId:
    node = builder.producer(value)
    while node is not None and node.op in _VIEWS:
        value = node.inputs[0]
        node = builder.producer(value)
    return value


def _number(builder: GraphBuilder, value: ValueId) -> int | None:
    """Return the integer that a value holds everywhere."""
    constant = builder.constant_at(_under_views(builder, value))
    if constant is None or constant.type.size != 1 or not constant.type.dtype.is_integer:
        return None
    return int(np.asarray(constant.array).reshape(()))


def _counts_to(builder: GraphBuilder, value: ValueId, stop: int) -> bool:
    """Say whether a value counts 0, 1 … along its last axis."""
    node = builder.made_by(_under_views(builder, value), "arange")
    found = builder.types[value].shape[-1]
    attributes = dict(node.attributes) if node else {}
    return found == stop and (attributes.get("start"), attributes.get("step")) == (0.0, 1.0)


RULES: tuple[Rule, ...] = (_dequantize,)
