"""Recognising activations and gated linear units, however their products are written."""

import math

from kernelwright.ir.graph import ValueId
from kernelwright.ir.idioms.reader import Match, Product, Reader


def sigmoid_of(reader: Reader, value: ValueId) -> ValueId | None:
    """Return x where a value is the logistic function of x."""
    node = reader.made_by(value, "sigmoid")
    if node is not None:
        return reader.base(node.inputs[0])
    node = reader.made_by(value, "divide")
    if node is None or reader.constant(node.inputs[0]) != 1.0:
        return None
    shifted = reader.plus_constant(node.inputs[1])
    exponential = reader.made_by(shifted[0], "exp") if shifted and shifted[1] == 1.0 else None
    negated = reader.made_by(exponential.inputs[0], "negative") if exponential else None
    return reader.base(negated.inputs[0]) if negated else None


def activation(reader: Reader, value: ValueId) -> Match | None:
    """Match silu, the gelus, and their gated forms."""
    product = reader.product(value)
    if len(product.denominators) == 1:
        return _divided(reader, product)
    if product.denominators or not 2 <= len(product.numerators) <= 3:
        return None
    for factor in product.numerators:
        rest = product.without(factor)
        assert rest is not None
        found = _gate(reader, factor, rest)
        if found is not None:
            return found
    return None


def _divided(reader: Reader, product: Product) -> Match | None:
    """Match a silu that divides x by 1 + exp(-x)."""
    shifted = reader.plus_constant(product.denominators[0])
    exponential = reader.made_by(shifted[0], "exp") if shifted and shifted[1] == 1.0 else None
    negated = reader.made_by(exponential.inputs[0], "negative") if exponential else None
    if negated is None or product.scale != 1.0:
        return None
    x = reader.base(negated.inputs[0])
    return _named("silu", "swiglu", x, product) if x in product.numerators else None


def _gate(reader: Reader, factor: ValueId, rest: Product) -> Match | None:
    x = sigmoid_of(reader, factor)
    if x is not None and rest.scale == 1.0:
        if x in rest.numerators:
            return _named("silu", "swiglu", x, rest)
        inner = reader.product(x)
        if inner.numerators and math.isclose(inner.scale, 1.702, rel_tol=4e-3):
            source = inner.numerators[0]
            if source in rest.numerators:
                return _named("gelu_fast", "geglu_fast", source, rest)
    shifted = reader.plus_constant(factor)
    if shifted is None or shifted[1] != 1.0 or rest.scale != 0.5:
        return None
    for op, name, gated in (("erf", "gelu", "geglu"), ("tanh", "gelu_tanh", "geglu_tanh")):
        node = reader.made_by(shifted[0], op)
        if node is None:
            continue
        for x in rest.numerators:
            if _is_gelu_argument(reader, node.inputs[0], x, op):
                return _named(name, gated, x, rest)
    return None


def _is_gelu_argument(reader: Reader, value: ValueId, x: ValueId, op: str) -> bool:
    inner = reader.product(value)
    if op == "erf":
        root = math.isclose(inner.scale, math.sqrt(0.5), rel_tol=4e-3)
        return inner.numerators == (x,) and not inner.denominators and root
    # sqrt(2 / pi) * (x + 0.044715 x^3), in whichever grouping.
    return math.isclose(inner.scale, math.sqrt(2 / math.pi), rel_tol=4e-3)


def _named(name: str, gated: str, x: ValueId, rest: Product) -> Match:
    left = rest.without(x)
    if left is not None and left.numerators:
        return Match(gated, {"x": left.numerators[0], "gate": x}, {})
    return Match(name, {"x": x}, {})


def simple_activation(reader: Reader, value: ValueId) -> Match | None:
    """Match relu, squared relu and softplus."""
    node = reader.made_by(value, "square")
    inner = simple_activation(reader, node.inputs[0]) if node else None
    if inner is not None and inner.name == "relu":
        return Match("relu_squared", inner.operands, {})
    node = reader.made_by(value, "maximum", "logaddexp")
    if node is None or reader.constant(node.inputs[1]) != 0.0:
        return None
    name = "relu" if node.op == "maximum" else "softplus"
    return Match(name, {"x": reader.base(node.inputs[0])}, {})
