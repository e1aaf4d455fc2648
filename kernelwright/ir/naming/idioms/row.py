"""Recognising what works on rows: softmax, log-sum-exp, variance, norms, cross-entropy."""

from kernelwright.ir.graph import Attribute, Node, ValueId
from kernelwright.ir.match.pattern import Found, match, matches
from kernelwright.ir.match.row import (
    ANY_LOG_SOFTMAX,
    ANY_LOGSUMEXP,
    AXES,
    CENTRED,
    CROSS_ENTROPY,
    MEAN_SQUARE,
    SHIFTED,
    SOFTMAX,
    SPREAD,
)
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Product, Reader


def softmax(reader: Reader, value: ValueId) -> Match | None:
    """Match a softmax: MLX's own, or exponentials over their sum, shifted or not."""
    return _bare(reader, _along("softmax", match(reader, SOFTMAX, value)))


def _along(name: str, found: Found | None, *others: str) -> Match | None:
    """Return a match along the axes of a row, with x and other operands."""
    if found is None:
        return None
    operands = {role: found.values[role] for role in ("x", *others)}
    return Match(name, operands, {"axes": found.axes[AXES]})


def _unshifted(reader: Reader, value: ValueId) -> ValueId:
    """Return x where a value is x less its row's maximum, else the value."""
    found = match(reader, SHIFTED, value)
    return reader.base(value) if found is None else found.values["x"]


def logsumexp(reader: Reader, value: ValueId) -> Match | None:
    """Match a log-sum-exp: MLX's own, or written with or without its maximum."""
    return _along("logsumexp", match(reader, ANY_LOGSUMEXP, value))


def log_softmax(reader: Reader, value: ValueId) -> Match | None:
    """Match x less the log-sum-exp of its row."""
    return _bare(reader, _along("log_softmax", match(reader, ANY_LOG_SOFTMAX, value)))


def cross_entropy(reader: Reader, value: ValueId) -> Match | None:
    """Match a row's log-sum-exp less the score at its target."""
    return _bare(reader, _along("cross_entropy", match(reader, CROSS_ENTROPY, value), "target"))


def _bare(reader: Reader, found: Match | None) -> Match | None:
    """Name what was shifted before, which changes no softmax, no logarithm of one, no score."""
    if found is None:
        return None
    x = _unshifted(reader, found.operands["x"])
    return Match(found.name, {**found.operands, "x": x}, found.parameters)


def variance(reader: Reader, value: ValueId) -> Match | None:
    """Match the mean of squared distances from the mean, also as a difference of squares."""
    found, node = match(reader, SPREAD, value), reader.node(value)
    if found is None or node is None:
        return None
    ddof = node.attribute("ddof") if node.op == "mean" else _squares_ddof(reader, node)
    assert isinstance(ddof, int)
    return Match("variance", {"x": found.values["x"]}, {"axes": found.axes[AXES], "ddof": ddof})


def _squares_ddof(reader: Reader, node: Node) -> Attribute:
    squares = reader.made_by(node.inputs[0], "mean")
    assert squares is not None
    return squares.attribute("ddof")


def norm(reader: Reader, value: ValueId) -> Match | None:
    """Match RMS norm and layer norm, with and without weight and bias."""
    found = _scaled_norm(reader, value)
    if found is not None:
        return found
    node = reader.made_by(value, "add")
    if node is None:
        return None
    for i in (0, 1):
        inner = _scaled_norm(reader, node.inputs[i])
        if inner is not None and inner.name == "layer_norm" and "weight" in inner.operands:
            bias = {"bias": reader.base(node.inputs[1 - i])}
            return Match("layer_norm", {**inner.operands, **bias}, inner.parameters)
    return None


def _scaled_norm(reader: Reader, value: ValueId) -> Match | None:
    product = reader.product(value)
    for factor in (*product.numerators, *product.denominators):
        below = _under_root(reader, factor, is_inverse=factor in product.numerators)
        if below is None:
            continue
        spread, epsilon = reader.plus_constant(below) or (below, 0.0)
        rest = product.without(factor) or product
        found = _layer_norm(reader, spread, rest, epsilon) or _rms_norm(
            reader, value, factor, spread, epsilon
        )
        if found is not None:
            return found
    return None


def _under_root(reader: Reader, value: ValueId, *, is_inverse: bool) -> ValueId | None:
    """Return v where a value is its root, or one over it, as an op or as a power."""
    node = reader.made_by(value, "rsqrt" if is_inverse else "sqrt", "power")
    if node is None:
        return None
    wanted = -0.5 if is_inverse else 0.5
    is_root = node.op != "power" or reader.constant(node.inputs[1]) == wanted
    return reader.base(node.inputs[0]) if is_root else None


def _layer_norm(reader: Reader, spread: ValueId, rest: Product, epsilon: float) -> Match | None:
    inner = variance(reader, spread)
    if inner is None:
        return None
    x, axes = inner.operands["x"], inner.parameters["axes"]
    for factor in rest.numerators if rest.scale == 1.0 else ():
        centred = match(reader, CENTRED, factor)
        if centred is not None and (centred.values["x"], centred.axes[AXES]) == (x, axes):
            return _with_weight("layer_norm", x, factor, rest, inner.parameters, epsilon)
    return None


def _rms_norm(
    reader: Reader, value: ValueId, factor: ValueId, spread: ValueId, epsilon: float
) -> Match | None:
    # Under an absolute value or a square stands x itself, or what it is made of.
    for found in matches(reader, MEAN_SQUARE, spread):
        x = found.values["x"]
        product = reader.product(value, x)
        rest = product.without(factor) or product
        if x in rest.numerators and rest.scale == 1.0:
            parameters: dict[str, Parameter] = {"axes": found.axes[AXES]}
            return _with_weight("rms_norm", x, x, rest, parameters, epsilon)
    return None


def _with_weight(
    name: str,
    x: ValueId,
    factor: ValueId,
    rest: Product,
    parameters: "dict[str, Parameter] | object",
    epsilon: float,
) -> Match | None:
    left = rest.without(factor)
    assert left is not None
    assert isinstance(parameters, dict)
    if len(left.numerators) > 1:
        return None
    weight = {"weight": left.numerators[0]} if left.numerators else {}
    return Match(name, {"x": x, **weight}, {**parameters, "epsilon": epsilon})
