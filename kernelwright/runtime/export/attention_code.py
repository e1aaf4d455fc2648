"""Attention as the call of MLX's own function that a person would write."""

from collections.abc import Sequence

from kernelwright.ir.ops import Call


def is_one_function(call: Call) -> bool:
    """Say whether MLX has one function for an attention, with one mask at most."""
    masks = len(call.inputs) - 3 - call.flag("has_sinks")
    stands = bool(call.flag("is_causal") or call.integer("window"))
    return not call.number("soft_cap") and masks + stands <= 1


def attention_text(call: Call, operands: Sequence[str]) -> str:
    """Return a call of MLX's function, of which `is_one_function` is true."""
    rest = list(operands[3:])
    options = [f"scale={call.number('scale')!r}"]
    sinks = [f"sinks={rest.pop()}"] if call.flag("has_sinks") else []
    if call.integer("window"):
        rest.append(_window(call))
    elif call.flag("is_causal"):
        rest.append('"causal"')
    options += [f"mask={mask}" for mask in rest] + sinks
    return f"mx.fast.scaled_dot_product_attention({', '.join([*operands[:3], *options])})"


def _window(call: Call) -> str:
    """Return the keys that a query sees as a mask: ones between two diagonals."""
    queries, keys = call.inputs[0].shape[2], call.inputs[1].shape[2]
    here, window = keys - queries, call.integer("window")
    last = here if call.flag("is_causal") else here + window - 1
    ones = f"mx.ones(({queries}, {keys}), dtype=mx.bool_)"
    return f"mx.tril(mx.triu({ones}, {here - window + 1}), {last})"
