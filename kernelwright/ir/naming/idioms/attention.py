"""Recognising rotary embeddings and scaled dot-product attention."""

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.attention import Factor, attention_of, unscaled
from kernelwright.ir.match.rotation import find_rotation
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader
from kernelwright.ir.ops import Call

_WAVES = frozenset({"cos", "sin"})
_MOST_STEPS = 6
"""Ops between a table and the waves that it holds."""
_PASSED = ("broadcast", "reshape", "cast", "transpose", "slice")


def rope(reader: Reader, value: ValueId) -> Match | None:
    """Match pairs of a row's elements turned by angles, however they are cut and joined.

    Tables that are given are taken for cosines and sines; those that are computed have to be.
    """
    found = find_rotation(reader.maps, value)
    if found is None or found.cosines == found.sines:
        return None
    cosine, sine = (table[0][0][0] for table in (found.cosines, found.sines))
    if not _are_of_one_angle(reader, cosine, sine):
        return None
    operands = {"x": found.x[0], "cos": cosine, "sin": sine}
    return Match("rope", operands, {"layout": found.layout})


def _are_of_one_angle(
    reader: Reader, cosine: ValueId, sine: ValueId, left: int = _MOST_STEPS
) -> bool:
    """Say whether two tables may be the cosine and the sine of one angle, both as much scaled.

    They are made alike down to an angle, or to arrays that may hold anything.
    """
    products = [reader.product(reader.root(table)) for table in (cosine, sine)]
    first, second = products
    if first.scale != second.scale or first.denominators != second.denominators:
        return False
    shared = {*first.numerators} & {*second.numerators}
    bare = [[v for v in product.numerators if v not in shared] for product in products]
    if [*map(len, bare)] != [1, 1]:
        return not any(_has_wave(reader, v) for values in bare for v in values)
    ((one,), (other,)) = bare
    made, makes = reader.node(reader.root(one)), reader.node(reader.root(other))
    ops = ["" if node is None else node.op for node in (made, makes)]
    if made is None or makes is None or not _WAVES.isdisjoint(ops):
        is_given = _WAVES.isdisjoint(ops)
        return is_given or (
            ops == ["cos", "sin"] and _operand(reader, made) == _operand(reader, makes)
        )
    if left and ops[0] == ops[1] and len(made.inputs) == len(makes.inputs):
        pairs = zip(made.inputs, makes.inputs, strict=True)
        return all(
            reader.base(a) == reader.base(b) or _are_of_one_angle(reader, a, b, left - 1)
            for a, b in pairs
        )
    return not any(_has_wave(reader, v) for v in (one, other))


def _operand(reader: Reader, node: Node | None) -> ValueId | None:
    return None if node is None else reader.base(node.inputs[0])


def _has_wave(reader: Reader, value: ValueId) -> bool:
    """Say whether a value is made of cosines or sines."""
    met, frontier = {value}, [value]
    while frontier:
        node = reader.node(frontier.pop())
        if node is None:
            continue
        if node.op in _WAVES:
            return True
        frontier += [v for v in node.inputs if v not in met]
        met.update(node.inputs)
    return False


def attention(reader: Reader, value: ValueId) -> Match | None:
    """Match softmax(scale * q k^T [+ mask]) v, with grouped heads and sinks, or the one op."""
    whole = reader.made_by(value, "attention")
    if whole is not None:
        return _gathered(reader, whole)
    node = reader.node(value)
    found = None if node is None else attention_of(reader.plain, node)
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
    factor, below = unscaled(reader.plain, _through(reader, value, _PASSED))
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
