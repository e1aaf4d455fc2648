"""Recognising rotary embeddings and scaled dot-product attention."""

import math

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.attention import Factor, attention_of, unscaled
from kernelwright.ir.match.rotation import rotation_of
from kernelwright.ir.match.row_map import LONGEST_ROW
from kernelwright.ir.naming.idioms.reader import Match, Parameter, PlainSource, Reader
from kernelwright.ir.ops import Call

_MOVING = frozenset({"concatenate", "slice_update", "matmul"})
_TURNING = frozenset(
    {"add", "subtract", "multiply", "negative", "concatenate", "slice_update", "select"}
)
_SUMS = frozenset({"add", "subtract"})
_PRODUCTS = frozenset({"multiply", "negative", "matmul"})
_DEEPEST = 5
_MOST_AXES = 2
_PASSED = ("broadcast", "reshape", "cast", "transpose", "slice")


def rope(reader: Reader, value: ValueId) -> Match | None:
    """Match pairs of a row's elements turned by angles, however they are cut and joined."""
    shape = reader.shape(value)
    if not reader.type(value).dtype.is_float or not _may_turn(reader, value, _DEEPEST):
        return None
    # Pairs are often put together along an axis of their own, before or behind the other one.
    for axes in range(1, min(len(shape), _MOST_AXES) + 1):
        if math.prod(shape[-axes:]) > LONGEST_ROW:
            break
        found = rotation_of(reader.maps.row(value, axes))
        if found is not None:
            operands = {"x": found.x, "cos": found.cosine, "sin": found.sine}
            return Match("rope", operands, {"layout": found.layout})
    return None


def _may_turn(reader: Reader, value: ValueId, left: int) -> bool:
    """Say whether a row is put together of sums of products, which is quicker to see."""
    whole = reader.node(value)
    parts = [] if whole is None else [node.op for v in whole.inputs if (node := reader.node(v))]
    if whole is None or whole.op in _PRODUCTS:
        return False
    if whole.op in _SUMS and not _PRODUCTS.issuperset(parts):
        # Sums of other sums are what layers add to what came before.
        return False
    # Where each pair is multiplied by its own matrix, columns are cut from a repeated table.
    is_pair = reader.shape(value)[-1:] == (2,)
    turning = _TURNING | {"slice"} if is_pair else _TURNING
    found: set[str] = set()
    frontier = [(value, left)]
    while frontier:
        value, left = frontier.pop()
        node = reader.node(reader.root(value) if is_pair else value)
        if node is None:
            continue
        if node.op != "matmul" or reader.maps.is_small_known(node.inputs[1]):
            found.add(node.op)
        if left and node.op in turning:
            frontier += [(v, left - 1) for v in node.inputs]
    return "multiply" in found and not any(map(found.isdisjoint, (_MOVING, _SUMS)))


def attention(reader: Reader, value: ValueId) -> Match | None:
    """Match softmax(scale * q k^T [+ mask]) v, with grouped heads and sinks, or the one op."""
    whole = reader.made_by(value, "attention")
    if whole is not None:
        return _gathered(reader, whole)
    node = reader.node(value)
    found = None if node is None else attention_of(PlainSource(reader), node)
    if found is None:
        return None
    scores = found.scores
    of_query, query = _unscaled(reader, scores.query)
    of_key, key = _unscaled(reader, scores.key)
    masks = [reader.operand(layer.mask) for layer in scores.masks]
    operands = {
        "query": query,
        "key": key,
        "value": _through(reader, found.value, _PASSED),
        **({"mask": masks[0]} if masks else {}),
    }
    parameters: dict[str, Parameter] = {
        "scale": scores.scale.times(of_query).times(of_key).number,
        "head_size": reader.shape(scores.query)[-1],
        "is_causal": int(bool(masks) and _is_causal(reader, masks[0])),
        "soft_cap": scores.cap,
        "has_sinks": int(scores.sinks is not None),
    }
    return Match("attention", operands, parameters)


def _unscaled(reader: Reader, value: ValueId) -> tuple[Factor, ValueId]:
    """Take the number that a query or key is multiplied by away from it, before or after views."""
    factor, below = unscaled(PlainSource(reader), _through(reader, value, _PASSED))
    return factor, _through(reader, below, _PASSED)


def _gathered(reader: Reader, node: Node) -> Match:
    """Name what the op of a gathered graph reads."""
    call = Call.of(reader.graph, node)
    bare = [_through(reader, v, _PASSED) for v in node.inputs]
    has_sinks = call.flag("has_sinks")
    operands = dict(zip(("query", "key", "value"), bare, strict=False))
    if len(bare) > 3 + has_sinks:
        operands["mask"] = bare[3]
    if has_sinks:
        operands["sinks"] = bare[-1]
    parameters: dict[str, Parameter] = {
        "scale": call.number("scale"),
        "head_size": call.inputs[0].shape[-1],
        "is_causal": int(call.flag("is_causal")),
        "window": call.integer("window"),
        "soft_cap": call.number("soft_cap"),
        "has_sinks": int(has_sinks),
    }
    return Match("attention", operands, parameters)


def _is_causal(reader: Reader, mask: ValueId) -> bool:
    node = reader.made_by(reader.root(mask), "greater_equal", "less_equal", "greater", "less")
    if node is None:
        return False
    return all(_is_position(reader, v) for v in node.inputs)


def _is_position(reader: Reader, value: ValueId) -> bool:
    shifted = reader.plus_constant(value)
    place = reader.root(shifted[0] if shifted else value)
    return reader.made_by(place, "arange") is not None


def _through(reader: Reader, value: ValueId, ops: tuple[str, ...]) -> ValueId:
    value = reader.root(value)
    while (node := reader.made_by(value, *ops)) is not None:
        value = reader.root(node.inputs[0])
    return value
