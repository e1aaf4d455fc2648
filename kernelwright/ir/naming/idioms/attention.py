"""Recognising rotary embeddings and scaled dot-product attention."""

from itertools import pairwise, permutations

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.attention import attention_of, unscaled
from kernelwright.ir.naming.idioms.reader import Match, Parameter, PlainSource, Reader
from kernelwright.ir.ops import Call

_PASSED = ("broadcast", "reshape", "cast", "transpose", "slice")


def rope(reader: Reader, value: ValueId) -> Match | None:
    """Match two halves rotated by an angle: `a cos - b sin` beside `a sin + b cos`."""
    node = reader.made_by(value, "concatenate")
    if node is None:
        return None
    operands = reader.operands(node)
    for first, second in pairwise(operands):
        down, up = reader.made_by(first, "subtract"), reader.made_by(second, "add")
        if down is None or up is None:
            continue
        turn = _turn(reader, down, up)
        if turn is not None:
            layout = "interleaved" if reader.shape(node.inputs[0])[-1] == 1 else "halves"
            return Match("rope", turn, {"layout": layout})
    return None


def _turn(reader: Reader, down: Node, up: Node) -> dict[str, ValueId] | None:
    """Return x, cosine and sine of `a cos - b sin` and `a sin + b cos`."""
    first, second = (reader.product(v) for v in down.inputs)
    risen = [reader.product(v) for v in up.inputs]
    if any(p.scale != 1.0 or len(p.numerators) != 2 for p in (first, second, *risen)):
        return None
    wanted = sorted(sorted(p.numerators) for p in risen)
    for a, cosine in permutations(first.numerators):
        for b, sine in permutations(second.numerators):
            if sorted([sorted([a, sine]), sorted([b, cosine])]) != wanted:
                continue
            x = _whole(reader, a, b)
            if x is not None:
                return {"x": x, "cos": cosine, "sin": sine}
    return None


def _whole(reader: Reader, a: ValueId, b: ValueId) -> ValueId | None:
    """Return the array of which two values are slices."""
    if reader.made_by(a, "slice") is None or reader.made_by(b, "slice") is None:
        return None
    x = _through(reader, a, _PASSED)
    return x if x == _through(reader, b, _PASSED) else None


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
    masks = [reader.base(layer.mask) for layer in scores.masks]
    operands = {
        "query": query,
        "key": key,
        "value": _through(reader, found.value, _PASSED),
        **({"mask": masks[0]} if masks else {}),
    }
    parameters: dict[str, Parameter] = {
        "scale": scores.scale * of_query * of_key,
        "head_size": reader.shape(scores.query)[-1],
        "is_causal": int(bool(masks) and _is_causal(reader, masks[0])),
        "soft_cap": scores.cap,
        "has_sinks": int(scores.sinks is not None),
    }
    return Match("attention", operands, parameters)


def _unscaled(reader: Reader, value: ValueId) -> tuple[float, ValueId]:
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
    node = reader.made_by(mask, "greater_equal", "less_equal", "greater", "less")
    if node is None:
        return False
    return all(_is_position(reader, v) for v in node.inputs)


def _is_position(reader: Reader, value: ValueId) -> bool:
    shifted = reader.plus_constant(value)
    return reader.made_by(shifted[0] if shifted else value, "arange") is not None


def _through(reader: Reader, value: ValueId, ops: tuple[str, ...]) -> ValueId:
    node = reader.made_by(value, *ops)
    value = reader.base(value)
    while node is not None:
        value = reader.base(node.inputs[0])
        node = reader.made_by(value, *ops)
    return value
