"""Recognising what works on rows: softmax, log-sum-exp, variance, norms, cross-entropy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.pattern import Found, Pattern, match, matches
from kernelwright.ir.match.placement import Rows
from kernelwright.ir.match.row import (
    ADDED,
    ANY_LOG_SOFTMAX,
    ANY_LOGSUMEXP,
    ANY_MEAN_SQUARE,
    AXES,
    BY_PLACES,
    CENTRED,
    COUNTED,
    CROSS_ENTROPY,
    HELD_SOFTMAX,
    LEAST,
    LOG_LIKELIHOOD,
    SHIFTED,
    SOFTMAX,
    SPREAD,
    SUM_OF_SQUARES,
)
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader
from kernelwright.ir.naming.idioms.root import ddof_of, under_root
from kernelwright.ir.naming.idioms.spread_norm import spread_norm


def softmax(reader: Reader, value: ValueId) -> Match | None:
    """Match a softmax: MLX's own, or exponentials over their sum, shifted or not."""
    found = match(reader, SOFTMAX, value) or _held_softmax(reader, value)
    return _bare(reader, _along("softmax", found, reader.shape(value)), found)


def _held_softmax(reader: Reader, value: ValueId) -> Found | None:
    """Match a softmax whose sum is kept from zero by so little that none of its bits moves."""
    for found in matches(reader, HELD_SOFTMAX, value):
        most = {LEAST: 1.0, ADDED: reader.type(value).dtype.epsilon / 2}
        ((role, number),) = (
            (role, reader.constant(found.values[role])) for role in most if role in found.values
        )
        if number is not None and 0.0 <= number <= most[role]:
            return found
    return None


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
    return _at_target(reader, "cross_entropy", CROSS_ENTROPY, value)


def log_likelihood(reader: Reader, value: ValueId) -> Match | None:
    """Match a row's score at its target less its log-sum-exp: a cross-entropy's negative."""
    return _at_target(reader, "log_likelihood", LOG_LIKELIHOOD, value)


def _at_target(reader: Reader, name: str, pattern: Pattern, value: ValueId) -> Match | None:
    for found in matches(reader, pattern, value):
        if BY_PLACES in found.values and not found.rows[AXES].are_last:
            continue
        if COUNTED in found.values and not _is_one_place(reader, found):
            continue
        loss = _along(name, found, _shape_of_x(reader, found), "target")
        if reader.type(value).size * found.rows[AXES].count != math.prod(found.rows[AXES].shape):
            # Several elements of each row are picked, or rows are added to other rows.
            continue
        if loss is not None and COUNTED in found.values:
            target = reader.root(found.values["target"])
            loss = replace(loss, operands={**loss.operands, "target": target})
        return _bare(reader, loss, found)
    return None


def _is_one_place(reader: Reader, found: Found) -> bool:
    """Say whether places are counted along each row, and compared with one number of the row."""
    rows = found.rows[AXES]
    counted = reader.made_by(reader.vector(found.values[COUNTED], rows), "arange")
    steps = None if counted is None else (counted.attribute("start"), counted.attribute("step"))
    is_by_row = reader.repeats_of(found.values["target"]) == rows.placement
    return steps == (0.0, 1.0) and is_by_row


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
    return Match(named.name, named.operands, {**named.parameters, "ddof": ddof_of(reader, value)})


def norm(reader: Reader, value: ValueId) -> Match | None:
    """Match RMS norm and layer norm, with and without weight and bias.

    A norm that stays in a wider dtype, as with a weight of float32, is one of what was cast.
    """
    found = _any_norm(reader, value)
    if found is None or reader.type(found.operands["x"]).dtype == reader.type(value).dtype:
        return found
    x, dtype = found.operands["x"], reader.type(value).dtype
    casts = (n.outputs[0] for n in reader.graph.nodes if n.op == "cast" and n.inputs == (x,))
    wide = next((cast for cast in casts if reader.type(cast).dtype == dtype), x)
    return Match(found.name, {**found.operands, "x": wide}, found.parameters)


def _any_norm(reader: Reader, value: ValueId) -> Match | None:
    found = _scaled_norm(reader, value)
    if found is not None:
        return found
    node = reader.made_by(value, "add")
    if node is None:
        return None
    for i in (0, 1):
        inner = _scaled_norm(reader, node.inputs[i])
        if inner is not None and inner.name == "layer_norm":
            axes = inner.parameters["axes"]
            assert isinstance(axes, tuple)
            bias = _row_vector(reader, node.inputs[1 - i], Rows(reader.shape(value), axes))
            if bias is not None:
                return Match("layer_norm", {**inner.operands, "bias": bias}, inner.parameters)
    return spread_norm(reader, value)


def _scaled_norm(reader: Reader, value: ValueId) -> Match | None:
    product = reader.product(value)
    for factor in (*product.numerators, *product.denominators):
        below = under_root(reader, factor, is_inverse=factor in product.numerators)
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


@dataclass(frozen=True)
class _Norm:
    """What a factor makes a norm of."""

    name: str
    x: ValueId
    multiplied: ValueId
    """x, or x less its mean."""
    rows: Rows
    parameters: dict[str, Parameter]
    gain: float = 1.0
    """The square of what has to be multiplied, where the root is of more than the mean square."""


def _layer_norms(
    reader: Reader, value: ValueId, spread: ValueId, epsilon: float
) -> Iterator[_Norm]:
    found = match(reader, SPREAD, spread)
    if found is None:
        return
    x, rows = found.values["x"], found.rows[AXES]
    parameters: dict[str, Parameter] = {"ddof": ddof_of(reader, spread), "epsilon": epsilon}
    for factor in reader.product(value).numerators:
        centred = match(reader, CENTRED, factor)
        bound = None if centred is None else (centred.values["x"], centred.rows[AXES].placement)
        if bound == (x, rows.placement):
            yield _Norm("layer_norm", x, factor, rows, parameters)


def _rms_norms(reader: Reader, value: ValueId, spread: ValueId, epsilon: float) -> Iterator[_Norm]:
    # Under an absolute value or a square stands x itself, or what it is made of.
    for found in matches(reader, ANY_MEAN_SQUARE, spread):
        x = found.values["x"]
        yield _Norm("rms_norm", x, x, found.rows[AXES], {"epsilon": epsilon})
    total = reader.product(spread)
    if len(total.numerators) != 1 or total.denominators:
        return
    for x, rows in _sums_of_squares(reader, total.numerators[0]):
        gain = total.scale * rows.count
        yield _Norm("rms_norm", x, x, rows, {"epsilon": epsilon}, gain)


def _sums_of_squares(reader: Reader, value: ValueId) -> Iterator[tuple[ValueId, Rows]]:
    """Yield what a value has the sums of squares of, added up or multiplied as vectors."""
    for found in matches(reader, SUM_OF_SQUARES, value):
        yield found.values["x"], found.rows[AXES]
    node = reader.made_by(value, "matmul")
    rows = None if node is None else reader.reduced(value)
    if node is not None and rows is not None:
        one, other = reader.operands(node)
        if one == other:
            yield one, rows


def _with_weight(reader: Reader, value: ValueId, factor: ValueId, norm: _Norm) -> Match | None:
    """Read a value as what is multiplied times a factor, and a weight or none."""
    rest = reader.product(value, norm.multiplied).without(norm.multiplied)
    rest = rest and rest.less(factor)
    rows = norm.rows.within(reader.shape(value))
    if rest is None or rows is None or rest.denominators or len(rest.numerators) > 1:
        return None
    # The count of a row is no constant of the graph where a mean is one op.
    rounded = 0.0 if norm.gain == 1.0 else 4 * reader.type(value).dtype.epsilon
    if rest.scale <= 0 or not math.isclose(rest.scale**2, norm.gain, rel_tol=rounded):
        return None
    operands = {"x": norm.x}
    if rest.numerators:
        weight = _row_vector(reader, rest.numerators[0], rows)
        if weight is None:
            return None
        operands["weight"] = weight
    parameters = {"axes": rows.axes, **norm.parameters}
    return Match(norm.name, operands, _per(parameters, norm.gain))


def _row_vector(reader: Reader, value: ValueId, rows: Rows) -> ValueId | None:
    """Return an operand that every row is scaled or shifted by; None for one that rows differ in.

    What differs, as the modulation of a sample, stands behind a norm that has no weight.
    """
    vector = reader.vector(value, rows)
    along = math.prod(n for axis, n in enumerate(rows.shape) if axis in rows.axes)
    return vector if reader.graph.types[vector].size == along else None


def _per(parameters: dict[str, Parameter], gain: float) -> dict[str, Parameter]:
    """Return the parameters of a norm whose root, with its epsilon, was that much too large."""
    epsilon = parameters["epsilon"]
    assert isinstance(epsilon, int | float)
    return {**parameters, "epsilon": epsilon / gain}
