"""Recognising the gates of mixtures of experts."""

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.gate import BIAS, CHOSEN, EPSILON, GATE, PICKED
from kernelwright.ir.match.pattern import matches
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader
from kernelwright.ir.ops import Call

_WORTHS = {"sigmoid": "sigmoid", "sqrt": "sqrt_softplus"}


def gate(reader: Reader, value: ValueId) -> Match | None:
    """Match the weights of each row's best experts."""
    for found in matches(reader, GATE, value):
        values = found.values
        ranks = reader.node(values.get(CHOSEN, values[PICKED]))
        is_number = EPSILON not in values or reader.constant(values[EPSILON]) is not None
        are_last = all(rows.are_last for rows in found.rows.values())
        if ranks is None or not is_number or not are_last:
            continue
        count = _best(reader.call(ranks), are_negated="opposite" in values)
        if count is None:
            continue
        made = reader.node(values["scores"]) if "scores" in values else None
        operands = {role: values[role] for role in ("x", BIAS) if role in values}
        worth = _WORTHS.get("" if made is None else made.op, "softmax")
        parameters: dict[str, Parameter] = {"experts": count, "scores": worth}
        return Match("moe_gate", operands, parameters)
    return None


def _best(ranks: Call, *, are_negated: bool) -> int | None:
    """Return how many of a row's greatest are ranked; None where those are others."""
    if "count" not in ranks.attributes:
        # Of a row without ranks the greatest alone is taken.
        return 1
    start, step, count = (ranks.integer(name) for name in ("start", "step", "count"))
    taken = {start + step * place for place in range(count)}
    columns = ranks.inputs[0].shape[-1]
    edge = count if are_negated else columns - count
    # A partition puts what is before a place before it, and promises no other order.
    is_ordered = ranks.integer("kth") in (-1, edge - 1, edge)
    is_best = taken == ({*range(edge)} if are_negated else {*range(edge, columns)})
    return count if is_ordered and is_best else None
