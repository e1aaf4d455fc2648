"""Recognising the gates of mixtures of experts."""

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.gate import BIAS, CHOSEN, EPSILON, GATE
from kernelwright.ir.match.pattern import matches
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader


def gate(reader: Reader, value: ValueId) -> Match | None:
    """Match the weights of each row's best experts."""
    for found in matches(reader, GATE, value):
        values = found.values
        ranks, scores = reader.node(values[CHOSEN]), values.get("scores")
        is_number = EPSILON not in values or reader.constant(values[EPSILON]) is not None
        if ranks is None or not is_number:
            continue
        call = reader.call(ranks)
        count, experts = call.integer("count"), call.inputs[0].shape[-1]
        first = 0 if "opposite" in values else experts - count
        are_last = all(rows.are_last for rows in found.rows.values())
        if call.integer("start") != first or not are_last:
            continue
        made = reader.node(scores) if scores is not None else None
        operands = {role: values[role] for role in ("x", BIAS) if role in values}
        worth = made.op if made is not None else "softmax"
        parameters: dict[str, Parameter] = {"experts": count, "scores": worth}
        return Match("moe_gate", operands, parameters)
    return None
