"""Recognising rotary embeddings and scaled dot-product attention."""

from itertools import pairwise, permutations

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader
from kernelwright.ir.naming.idioms.row import softmax
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
    node = reader.made_by(value, "matmul")
    if node is None:
        return None
    weights = softmax(reader, _through(reader, node.inputs[0], ("reshape", "cast", "slice")))
    if weights is None:
        return None
    scores, masks, has_sinks = _scores(reader, weights.operands["x"])
    if scores is None:
        return None
    query = reader.product(scores.inputs[0])
    operands = {
        "query": _through(reader, query.numerators[0], _PASSED),
        "key": _through(reader, scores.inputs[1], _PASSED),
        "value": _through(reader, node.inputs[1], _PASSED),
        **({"mask": masks[0]} if masks else {}),
    }
    shape = reader.shape(scores.inputs[0])
    parameters: dict[str, Parameter] = {
        "scale": query.scale,
        "head_size": shape[-1],
        "is_causal": int(bool(masks) and _is_causal(reader, masks[0])),
        "has_sinks": int(has_sinks),
    }
    return Match("attention", operands, parameters)


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


def _scores(reader: Reader, value: ValueId) -> tuple[Node | None, list[ValueId], bool]:
    """Return the product of query and key below masks, scale and sinks."""
    masks: list[ValueId] = []
    has_sinks = False
    for _ in range(8):
        node = reader.made_by(value, "select", "add", "multiply", "divide", "concatenate", "matmul")
        if node is None or node.op == "matmul":
            return node, masks, has_sinks
        if node.op == "select":
            masks.append(reader.base(node.inputs[0]))
            value = node.inputs[1]
        elif node.op == "concatenate":
            has_sinks = True
            value = node.inputs[-1]
        else:
            keep = 0 if _leads_to_matmul(reader, node.inputs[0]) else 1
            if node.op == "add":
                masks.append(reader.base(node.inputs[1 - keep]))
            value = node.inputs[keep]
    return None, masks, has_sinks


def _leads_to_matmul(reader: Reader, value: ValueId) -> bool:
    for _ in range(6):
        node = reader.made_by(value, "matmul", "multiply", "divide", "add", "select", "tanh")
        if node is None:
            return False
        if node.op == "matmul":
            return True
        value = node.inputs[1 if node.op == "select" else 0]
    return False


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
