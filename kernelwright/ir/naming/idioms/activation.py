"""Recognising activations and gated linear units, however their products are written."""

import math
from collections.abc import Iterator

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.activation import (
    ONE_AND_POWER,
    RELU,
    SIGMOID,
    SOFTPLUS,
    SQUARED_RELU,
)
from kernelwright.ir.match.pattern import Pattern, match
from kernelwright.ir.match.polynomial import POLYNOMIAL, Terms, polynomial
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
                x = reader.operand(x)
                return Match(gated, {"x": reader.operand(left.numerators[0]), "gate": x}, {})
            return Match(name, {"x": x}, {})
    return None


_TANH_SCALE, _TANH_CUBE, _FAST_SCALE = math.sqrt(2 / math.pi), 0.044715, 1.702
_ROUNDED = 1e-4
"""How far people round the numbers of an activation; what a dtype rounds comes on top."""
Gate = tuple[str, str, ValueId, float]


def _gates(reader: Reader, factor: ValueId) -> list[Gate]:
    """List what a factor may be the gate of: plain name, gated name, x, the factor beside it."""
    gates: list[Gate] = []
    x = sigmoid_of(reader, factor)
    if x is not None:
        gates.append(("silu", "swiglu", x, 1.0))
        gates += _of(reader, x, {1: _FAST_SCALE}, "gelu_fast", "geglu_fast", 1.0)
        # (1 + tanh(y)) / 2 is the logistic function of 2 y.
        gates += _of(reader, x, _bent(2.0), "gelu_tanh", "geglu_tanh", 1.0)
    shifted = reader.plus_constant(factor)
    if shifted is None or shifted[1] != 1.0:
        return gates
    if (below := match(reader, ONE_AND_POWER, factor)) is not None:
        # x / (1 + exp(-x)): the gate stands below.
        gates.append(("silu", "swiglu", below.values["x"], 1.0))
    erf, tanh = (reader.made_by(shifted[0], op) for op in ("erf", "tanh"))
    if erf is not None:
        gates += _of(reader, erf.inputs[0], {1: math.sqrt(0.5)}, "gelu", "geglu", 0.5)
    if tanh is not None:
        gates += _of(reader, tanh.inputs[0], _bent(1.0), "gelu_tanh", "geglu_tanh", 0.5)
        gates += _of(reader, tanh.inputs[0], {1: 0.5}, "silu", "swiglu", 0.5)
    return gates


def _bent(factor: float) -> Terms:
    return {1: factor * _TANH_SCALE, 3: factor * _TANH_SCALE * _TANH_CUBE}


def _of(
    reader: Reader, value: ValueId, wanted: Terms, plain: str, gated: str, scale: float
) -> Iterator[Gate]:
    """Yield gates of all x of which a value is the wanted polynomial."""
    tolerance = _ROUNDED + 2 * reader.type(value).dtype.epsilon
    for x in _parts(reader, value):
        found = polynomial(reader, value, x) or {}
        if found.keys() == wanted.keys() and all(
            math.isclose(found[power], wanted[power], rel_tol=tolerance) for power in wanted
        ):
            yield plain, gated, x, scale


def _parts(reader: Reader, value: ValueId) -> tuple[ValueId, ...]:
    """Return what the arithmetic of a value is made of, on every level."""
    found: dict[ValueId, None] = {}
    frontier = [value]
    while frontier:
        value = reader.base(frontier.pop())
        node = reader.made_by(value, *POLYNOMIAL)
        if value not in found and reader.constant(value) is None:
            found[value] = None
            frontier += node.inputs if node is not None else ()
    return tuple(found)


def simple_activation(reader: Reader, value: ValueId) -> Match | None:
    """Match relu, squared relu and softplus."""
    for name, pattern in _SIMPLE.items():
        if (found := match(reader, pattern, value)) is not None:
            return Match(name, {"x": found.values["x"]}, {})
    return None


_SIMPLE: dict[str, Pattern] = {"relu_squared": SQUARED_RELU, "relu": RELU, "softplus": SOFTPLUS}
