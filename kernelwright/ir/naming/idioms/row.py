"""Recognising what works on rows: softmax, log-sum-exp, variance, norms, cross-entropy."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.pattern import Found, match, matches
from kernelwright.ir.match.placement import Rows
from kernelwright.ir.match.row import (
    ANY_LOG_SOFTMAX,
    ANY_LOGSUMEXP,
    AXES,
    BY_PLACES,
    CENTRED,
    CROSS_ENTROPY,
    MEAN_SQUARE,
    SHIFTED,
    SOFTMAX,
    SPREAD,
)
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader


def softmax(reader: Reader, value: ValueId) -> Match | None:
    """Match a softmax: MLX's own, or exponentials over their sum, shifted or not."""
    found = match(reader, SOFTMAX, value)
    return _bare(reader, _along("softmax", found, reader.shape(value)), found)


def log_softmax(reader: Reader, value: ValueId) -> Match | None:
    """Match x less the log-sum-exp of its row."""
    found = match(reader, ANY_LOG_SOFTMAX, value)
    return _bare(reader, _along("log_softmax", found, reader.shape(value)), found)


def logsumexp(reader: Reader, value: ValueId) -> Match | None:
    """Match a log-sum-exp: MLX's own, or written with or without its maximum."""
    found = match(reader, ANY_LOGSUMEXP, value)
    return _along("logsumexp", found, _shape_of_x(reader, found))


def cross_entropy(reader: Reader, value: ValueId) -> Match | None:
    """Match a row's log-sum-exp less the score at its target."""
    found = match(reader, CROSS_ENTROPY, value)
    if found is not None and BY_PLACES in found.values and not found.rows[AXES].are_last:
        return None
    loss = _along("cross_entropy", found, _shape_of_x(reader, found), "target")
    return _bare(reader, loss, found)


def _along(name: str, found: Found | None, shape: tuple[int, ...], *others: str) -> Match | None:
    """Return a match along the axes of a shape that are a row, with x and other operands."""
    rows = found.rows[AXES].within(shape) if found is not None else None
    if found is None or rows is None:
        return None
    operands = {role: found.values[role] for role in ("x", *others)}
    return Match(name, operands, {"axes": rows.axes})


def _shape_of_x(reader: Reader, found: Found | None) -> tuple[int, ...]:
    return () if found is None else reader.shape(found.values["x"])


def _bare(reader: Reader, named: Match | None, found: Found | None) -> Match | None:
    """Name what was less the maximum of its row, or of all rows, which changes no such result."""
    if named is None or found is None:
        return named
    shifted = match(reader, SHIFTED, named.operands["x"])
    rows = found.rows[AXES]
    whole = Rows(rows.shape, tuple(range(len(rows.shape))))
    if shifted is None or shifted.rows[AXES].placement not in (rows.placement, whole.placement):
        return named
    return Match(named.name, {**named.operands, "x": shifted.values["x"]}, named.parameters)


def variance(reader: Reader, value: ValueId) -> Match | None:
    """Match the mean of squared distances from the mean, also as a difference of squares."""
    found = match(reader, SPREAD, value)
    named = _along("variance", found, _shape_of_x(reader, found))
    if named is None:
        return None
    return Match(named.name, named.operands, {**named.parameters, "ddof": _ddof(reader, value)})


def _ddof(reader: Reader, value: ValueId) -> int:
    """Return the correction of a variance; a difference of squares has none."""
    node = reader.made_by(value, "mean")
    return 0 if node is None else reader.call(node).integer("ddof")


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
            axes = inner.parameters["axes"]
            assert isinstance(axes, tuple)
            rows = Rows(reader.shape(value), axes)
            bias = {"bias": reader.vector(node.inputs[1 - i], rows)}
            return Match("layer_norm", {**inner.operands, **bias}, inner.parameters)
    return None


def _scaled_norm(reader: Reader, value: ValueId) -> Match | None:
    product = reader.product(value)
    for factor in (*product.numerators, *product.denominators):
        below = _under_root(reader, factor, is_inverse=factor in product.numerators)
        if below is None:
            continue
        spread, epsilon = reader.plus_constant(below) or (below, 0.0)
        for norm in (
            *_layer_norms(reader, value, spread, epsilon),
            *_rms_norms(reader, value, spread, epsilon),
        ):
            found = _with_weight(reader, value, factor, norm)
            if found is not None:
                return found
    return None


def _under_root(reader: Reader, value: ValueId, *, is_inverse: bool) -> ValueId | None:
    """Return v where a value is its root, or one over it, as an op or as a power."""
    row = reader.row(value)
    root = "rsqrt" if is_inverse else "sqrt"
    node = None if row is None else reader.made_by(row, root, "power")
    if node is None:
        return None
    wanted = -0.5 if is_inverse else 0.5
    is_root = node.op != "power" or reader.constant(node.inputs[1]) == wanted
    return reader.base(node.inputs[0]) if is_root else None


@dataclass(frozen=True)
class _Norm:
    """What a factor makes a norm of."""

    name: str
    x: ValueId
    multiplied: ValueId
    """x, or x less its mean."""
    rows: Rows
    parameters: dict[str, Parameter]


def _layer_norms(
    reader: Reader, value: ValueId, spread: ValueId, epsilon: float
) -> Iterator[_Norm]:
    found = match(reader, SPREAD, spread)
    if found is None:
        return
    x, rows = found.values["x"], found.rows[AXES]
    parameters: dict[str, Parameter] = {"ddof": _ddof(reader, spread), "epsilon": epsilon}
    for factor in reader.product(value).numerators:
        centred = match(reader, CENTRED, factor)
        bound = None if centred is None else (centred.values["x"], centred.rows[AXES].placement)
        if bound == (x, rows.placement):
            yield _Norm("layer_norm", x, factor, rows, parameters)


def _rms_norms(reader: Reader, value: ValueId, spread: ValueId, epsilon: float) -> Iterator[_Norm]:
    # Under an absolute value or a square stands x itself, or what it is made of.
    for found in matches(reader, MEAN_SQUARE, spread):
        x = found.values["x"]
        yield _Norm("rms_norm", x, x, found.rows[AXES], {"epsilon": epsilon})


def _with_weight(reader: Reader, value: ValueId, factor: ValueId, norm: _Norm) -> Match | None:
    """Read a value as what is multiplied times a factor, and a weight or none."""
    rest = reader.product(value, norm.multiplied).without(norm.multiplied)
    rest = rest and rest.less(factor)
    rows = norm.rows.within(reader.shape(value))
    if rest is None or rows is None or rest.scale != 1.0 or rest.denominators:
        return None
    if len(rest.numerators) > 1:
        return None
    operands = {"x": norm.x}
    if rest.numerators:
        operands["weight"] = reader.vector(rest.numerators[0], rows)
    return Match(norm.name, operands, {"axes": rows.axes, **norm.parameters})
