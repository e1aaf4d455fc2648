"""Recognising activations and gated linear units, however their products are written."""

import math

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.activation import (
    ONE_AND_POWER,
    RELU,
    SIGMOID,
    SOFTPLUS,
    SQUARED_RELU,
)
from kernelwright.ir.match.pattern import Pattern, match
from kernelwright.ir.naming.idioms.reader import Match, Reader


def sigmoid_of(reader: Reader, value: ValueId) -> ValueId | None:
    """Return x where a value is the logistic function of x."""
    found = match(reader, SIGMOID, value)
    return None if found is None else found.values["x"]


def activation(reader: Reader, value: ValueId) -> Match | None:
    """Match silu, the gelus, and their gated forms."""
    product = reader.product(value)
    for factor in (*product.numerators, *product.denominators):
        for name, gated, x, scale in _gates(reader, factor):
            whole = reader.product(value, x)
            is_below = factor in whole.denominators
            rest = whole if is_below else whole.without(factor)
            if rest is None or len(rest.denominators) != is_below or rest.scale != scale:
                continue
            left = rest.without(x)
            if left is None or len(left.numerators) > 1:
                continue
            if left.numerators:
                return Match(gated, {"x": left.numerators[0], "gate": x}, {})
            return Match(name, {"x": x}, {})
    return None


_TANH_SCALE = math.sqrt(2 / math.pi)
Gate = tuple[str, str, ValueId, float]


def _gates(reader: Reader, factor: ValueId) -> list[Gate]:
    """List what a factor may be the gate of: plain name, gated name, x, the factor beside it."""
    gates: list[Gate] = []
    x = sigmoid_of(reader, factor)
    if x is not None:
        gates.append(("silu", "swiglu", x, 1.0))
        inner = reader.product(x)
        if inner.numerators and math.isclose(inner.scale, 1.702, rel_tol=4e-3):
            gates.append(("gelu_fast", "geglu_fast", inner.numerators[0], 1.0))
        # (1 + tanh(y)) / 2 is the logistic function of 2 y.
        doubled = _gelu_arguments(reader, x, 2 * _TANH_SCALE)
        gates.extend(("gelu_tanh", "geglu_tanh", argument, 1.0) for argument in doubled)
    shifted = reader.plus_constant(factor)
    if shifted is None or shifted[1] != 1.0:
        return gates
    if (below := match(reader, ONE_AND_POWER, factor)) is not None:
        # x / (1 + exp(-x)): the gate stands below.
        gates.append(("silu", "swiglu", below.values["x"], 1.0))
    erf, tanh = (reader.made_by(shifted[0], op) for op in ("erf", "tanh"))
    if erf is not None:
        gates.extend(("gelu", "geglu", x, 0.5) for x in _root_arguments(reader, erf.inputs[0]))
    if tanh is not None:
        bent = _gelu_arguments(reader, tanh.inputs[0], _TANH_SCALE)
        gates.extend(("gelu_tanh", "geglu_tanh", x, 0.5) for x in bent)
        halved = reader.product(tanh.inputs[0])
        if halved.scale == 0.5 and len(halved.numerators) == 1 and not halved.denominators:
            gates.append(("silu", "swiglu", halved.numerators[0], 0.5))
    return gates


def _root_arguments(reader: Reader, value: ValueId) -> tuple[ValueId, ...]:
    """Return what may be x in the argument of a gelu's erf."""
    inner, whole = reader.product(value), reader.made_by(value, "multiply", "divide")
    if not math.isclose(inner.scale, math.sqrt(0.5), rel_tol=4e-3):
        return _under_scale(reader, value, math.sqrt(0.5))
    direct = (reader.base(whole.inputs[0]),) if whole else ()
    return (*inner.numerators[:1], *direct) if len(inner.numerators) == 1 else direct


def _under_scale(reader: Reader, value: ValueId, scale: float) -> tuple[ValueId, ...]:
    """Return what is scaled by a number, as x may be a scaled product itself."""
    node = reader.made_by(value, "multiply", "divide")
    return (reader.base(node.inputs[0]),) if node and _is_root(reader, node, scale) else ()


def _gelu_arguments(reader: Reader, value: ValueId, scale: float) -> tuple[ValueId, ...]:
    """Return what may be x in `scale * (x + 0.044715 x^3)`, or with x taken out of the sum."""
    inner = reader.product(value)
    if not math.isclose(inner.scale, scale, rel_tol=4e-3):
        return _under_scale(reader, value, scale)
    sums = [reader.made_by(factor, "add") for factor in inner.numerators]
    terms = [v for node in sums if node for v in reader.operands(node)]
    return (*inner.numerators, *terms)


def _is_root(reader: Reader, node: Node, root: float) -> bool:
    scale = reader.constant(node.inputs[1])
    if not scale:
        return False
    return math.isclose(scale if node.op == "multiply" else 1 / scale, root, rel_tol=4e-3)


def simple_activation(reader: Reader, value: ValueId) -> Match | None:
    """Match relu, squared relu and softplus."""
    for name, pattern in _SIMPLE.items():
        if (found := match(reader, pattern, value)) is not None:
            return Match(name, {"x": found.values["x"]}, {})
    return None


_SIMPLE: dict[str, Pattern] = {"relu_squared": SQUARED_RELU, "relu": RELU, "softplus": SOFTPLUS}
