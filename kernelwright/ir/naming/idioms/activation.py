"""Recognising activations and gated linear units, however their products are written."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.polynomial import POLYNOMIAL, Terms, polynomial
from kernelwright.ir.naming.idioms.reader import Match, Product, Reader

_TANH_SCALE, _TANH_CUBE, _FAST_SCALE = math.sqrt(2 / math.pi), 0.044715, 1.702
_ROUNDED = 1e-4
"""How far people round the numbers of an activation; what a dtype rounds comes on top."""
_MOST_STEPS = 6
_CURVES = ("sigmoid", "tanh", "erf")
_IDENTITY: Terms = {1: 1.0}
_LOGISTIC, _NORMAL = "logistic", "normal"
_GATES: tuple[tuple[str, str, str, Terms], ...] = (
    ("silu", "swiglu", _LOGISTIC, _IDENTITY),
    ("gelu_fast", "geglu_fast", _LOGISTIC, {1: _FAST_SCALE}),
    # (1 + tanh(y)) / 2 is the logistic function of 2 y.
    (
        "gelu_tanh",
        "geglu_tanh",
        _LOGISTIC,
        {1: 2 * _TANH_SCALE, 3: 2 * _TANH_SCALE * _TANH_CUBE},
    ),
    ("gelu", "geglu", _NORMAL, {1: math.sqrt(0.5)}),
)
"""Plain name, gated name, a distribution function and the polynomial of x that it is taken of."""


@dataclass(frozen=True)
class _Affine:
    """A value as `constant + slope * curve(argument)`; a plain number where there is no curve."""

    constant: float = 0.0
    slope: float = 0.0
    curve: str = ""
    argument: ValueId = -1

    def scaled(self, factor: float) -> "_Affine":
        """Multiply by a number."""
        return replace(self, constant=self.constant * factor, slope=self.slope * factor)


@dataclass(frozen=True)
class _Gate:
    """What stands beside `scale * function(factor * argument)` in a product."""

    function: str
    argument: ValueId
    factor: float
    scale: float
    beside: Product


def activation(reader: Reader, value: ValueId) -> Match | None:
    """Match silu, the gelus, and their gated forms."""
    return next(_activations(reader, value), None) or _chosen(reader, value)


def _chosen(reader: Reader, value: ValueId) -> Match | None:
    """Read a choice between two ways to compute one activation as that activation."""
    node = reader.made_by(value, "select")
    if node is None:
        return None
    one, other = (list(_activations(reader, v)) for v in node.inputs[1:])
    return next((found for found in one if found in other), None)


def _activations(reader: Reader, value: ValueId) -> Iterator[Match]:
    for x in dict.fromkeys(x for gate in _gates(reader, value) for x, *_ in _named(reader, gate)):
        # x may be a product, which stays in one piece.
        for gate in _gates(reader, value, x):
            left = gate.beside.without(x)
            is_whole = math.isclose(gate.scale * gate.beside.scale, 1.0)
            if left is None or left.denominators or len(left.numerators) > 1 or not is_whole:
                continue
            for _, name, gated in (found for found in _named(reader, gate) if found[0] == x):
                if left.numerators:
                    operands = {"x": reader.operand(left.numerators[0]), "gate": reader.operand(x)}
                    yield Match(gated, operands, {})
                else:
                    yield Match(name, {"x": x}, {})


def _named(reader: Reader, gate: _Gate) -> Iterator[tuple[ValueId, str, str]]:
    """Yield every x that a gate may be of, with the plain name and the gated one."""
    for name, gated, function, terms in _GATES:
        if function == gate.function:
            wanted = {power: number / gate.factor for power, number in terms.items()}
            # Nobody rounds a one.
            rounded = 0.0 if terms is _IDENTITY else _ROUNDED
            for x in _having(reader, gate.argument, wanted, rounded):
                yield x, name, gated


def _gates(reader: Reader, value: ValueId, whole: ValueId | None = None) -> Iterator[_Gate]:
    """Yield the factors of a product that are a distribution function, and what is beside them."""
    product = reader.product(value, whole)
    for factor in dict.fromkeys(product.numerators):
        yield from _of(_affine(reader, factor), product.less(factor))
    for factor in dict.fromkeys(product.denominators):
        yield from _over(reader, _affine(reader, factor), product.less(factor))
    for factor in dict.fromkeys(product.numerators):
        beside = product.less(factor)
        for gate in _distributed(reader, factor, whole):
            yield replace(gate, beside=beside.times(gate.beside))


def _of(read: _Affine | None, beside: Product) -> Iterator[_Gate]:
    if read is None:
        return
    argument, half = read.argument, 2 * read.constant
    match read.curve:
        case "sigmoid" if not read.constant:
            yield _Gate(_LOGISTIC, argument, 1.0, read.slope, beside)
        case "sigmoid" if read.constant == -read.slope:
            yield _Gate(_LOGISTIC, argument, -1.0, read.constant, beside)
        case "tanh" | "erf" if half and abs(read.slope) == abs(read.constant):
            is_tanh = read.curve == "tanh"
            factor = (2.0 if is_tanh else 1.0) * math.copysign(1.0, read.slope * read.constant)
            yield _Gate(_LOGISTIC if is_tanh else _NORMAL, argument, factor, half, beside)


def _over(reader: Reader, read: _Affine | None, beside: Product) -> Iterator[_Gate]:
    """Read one and a power below a product, which may have the power itself above."""
    if read is None or read.curve != "exp" or not read.constant or read.constant != read.slope:
        return
    scale = 1.0 / read.constant
    yield _Gate(_LOGISTIC, read.argument, -1.0, scale, beside)
    for power in beside.numerators:
        node = reader.made_by(power, "exp")
        if node is not None and reader.base(node.inputs[0]) == read.argument:
            yield _Gate(_LOGISTIC, read.argument, 1.0, scale, beside.less(power))


def _distributed(reader: Reader, value: ValueId, whole: ValueId | None) -> Iterator[_Gate]:
    """Read `c x + c x curve(y)`, which is `x (c + c curve(y))`."""
    node = reader.made_by(value, "add", "subtract")
    if node is None:
        return
    sign = -1.0 if node.op == "subtract" else 1.0
    parts = [reader.product(v, whole) for v in node.inputs]
    for alone, bent in (parts, parts[::-1]) if sign > 0 else (parts,):
        rest = bent.without(*alone.numerators)
        if rest is None or len(rest.numerators) != 1 or rest.denominators or alone.denominators:
            continue
        read = _affine(reader, rest.numerators[0])
        if read is not None and alone.numerators:
            bent_part = read.scaled(sign * bent.scale)
            shifted = replace(bent_part, constant=alone.scale + bent_part.constant)
            yield from _of(shifted, replace(alone, scale=1.0))


def _affine(reader: Reader, value: ValueId, left: int = _MOST_STEPS) -> _Affine | None:
    """Read a value as a number and a multiple of a curve, however they are added up."""
    if (held := reader.constant(value)) is not None:
        return _Affine(held)
    node = reader.node(value)
    if node is None or not left:
        return None
    if node.op in (*_CURVES, "exp"):
        return _Affine(0.0, 1.0, node.op, reader.base(node.inputs[0]))
    if node.op not in ("add", "subtract", "multiply", "divide", "negative"):
        return None
    known: list[_Affine] = []
    for operand in node.inputs:
        read = _affine(reader, operand, left - 1)
        if read is None:
            return None
        known.append(read)
    return _combined(node.op, known)


def _combined(op: str, read: list[_Affine]) -> _Affine | None:
    match op, read:
        case "negative", [one]:
            return one.scaled(-1.0)
        case "divide", [one, other] if not other.curve and other.constant:
            return one.scaled(1.0 / other.constant)
        case "multiply", [one, other] if not (one.curve and other.curve):
            return one.scaled(other.constant) if one.curve else other.scaled(one.constant)
        case "add" | "subtract", [one, other] if not (one.curve and other.curve):
            other = other.scaled(-1.0) if op == "subtract" else other
            bent = one if one.curve else other
            return replace(bent, constant=one.constant + other.constant)
    return None


def _having(reader: Reader, value: ValueId, wanted: Terms, rounded: float) -> Iterator[ValueId]:
    """Yield all x of which a value is the wanted polynomial."""
    tolerance = rounded and rounded + 2 * reader.type(value).dtype.epsilon
    for x in _parts(reader, value):
        found = polynomial(reader, value, x) or {}
        if found.keys() == wanted.keys() and all(
            math.isclose(found[power], wanted[power], rel_tol=tolerance) for power in wanted
        ):
            yield x


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
