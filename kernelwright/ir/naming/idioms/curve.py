"""Recognising activations and losses of one element by a table of patterns and numbers."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match import curve
from kernelwright.ir.match.activation import RELU, SOFTPLUS, SQUARED_RELU
from kernelwright.ir.match.pattern import Either, Found, Made, matches
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Reader

_Numbers = dict[str, float]
_SELU_ALPHA, _SELU_GAIN = 1.6732632423543772, 1.0507009873554805
_ROUNDED = 1e-4
"""How far people round such numbers; what a dtype rounds comes on top."""


@dataclass(frozen=True)
class _Curve:
    """A name, how it is written, and what its numbers have to be.

    `parameters` takes the numbers that are bound, and how far they may be off, to the parameters
    of the name; None where they are those of no such curve.
    """

    name: str
    pattern: Either | Made
    parameters: Callable[[_Numbers, float], Mapping[str, Parameter] | None] = lambda *_: {}


def _elu(numbers: _Numbers, _: float) -> Mapping[str, Parameter] | None:
    alpha = numbers.get(curve.ALPHA, 1.0)
    return {"alpha": alpha} if alpha > 0.0 else None


def _selu(numbers: _Numbers, tolerance: float) -> Mapping[str, Parameter] | None:
    wanted = {
        curve.GAIN: _SELU_GAIN,
        curve.ALPHA: _SELU_ALPHA,
        curve.BOTH: _SELU_GAIN * _SELU_ALPHA,
    }
    is_it = all(math.isclose(n, wanted[k], rel_tol=tolerance) for k, n in numbers.items())
    return {} if is_it else None


def _huber(numbers: _Numbers, tolerance: float) -> Mapping[str, Parameter] | None:
    return _straight_from("delta", numbers, tolerance)


def _smooth_l1(numbers: _Numbers, tolerance: float) -> Mapping[str, Parameter] | None:
    return _straight_from("beta", {curve.SLOPE: 1.0, **numbers}, tolerance)


def _straight_from(
    name: str, numbers: _Numbers, tolerance: float
) -> Mapping[str, Parameter] | None:
    """Return where a loss begins to be straight, if its other numbers follow from that."""
    width = numbers[curve.WIDTH]
    wanted = {curve.WIDTH: width, curve.SLOPE: width, curve.HALF_WIDTH: width / 2}
    is_it = all(math.isclose(n, wanted[k], rel_tol=tolerance) for k, n in numbers.items())
    return {name: width} if width > 0.0 and is_it else None


_CURVES = (
    _Curve("relu_squared", SQUARED_RELU),
    _Curve("relu", RELU),
    _Curve("softplus", SOFTPLUS),
    _Curve("selu", curve.SELU, _selu),
    _Curve("elu", curve.ELU, _elu),
    _Curve("celu", curve.CELU, _elu),
    _Curve("mish", curve.MISH),
    _Curve("softsign", curve.SOFTSIGN),
    _Curve("hard_swish", curve.HARD_SWISH),
    _Curve("hard_tanh", curve.HARD_TANH),
    _Curve("log_cosh", curve.LOG_COSH),
    _Curve("smooth_l1", curve.SMOOTH_L1, _smooth_l1),
    _Curve("huber", curve.HUBER, _huber),
)


def _by_op() -> Mapping[str, list[_Curve]]:
    found: dict[str, list[_Curve]] = defaultdict(list)
    for one in _CURVES:
        ways = one.pattern.patterns if isinstance(one.pattern, Either) else (one.pattern,)
        for op in dict.fromkeys(op for way in ways if isinstance(way, Made) for op in way.ops):
            found[op].append(one)
    return found


_BY_OP = _by_op()


def element_curve(reader: Reader, value: ValueId) -> Match | None:
    """Match an activation or a loss of one element, of the first name whose numbers fit."""
    node = reader.node(value)
    for one in _BY_OP.get("" if node is None else node.op, ()):
        for found in matches(reader, one.pattern, value):
            numbers = _numbers(reader, found)
            tolerance = _ROUNDED + 2 * reader.type(value).dtype.epsilon
            named = None if numbers is None else one.parameters(numbers, tolerance)
            if named is not None:
                return Match(one.name, {"x": found.values["x"]}, named)
    return None


def _numbers(reader: Reader, found: Found) -> _Numbers | None:
    """Return the numbers that a match bound; None where one of them is no constant."""
    numbers: _Numbers = {}
    for name in curve.NUMBERS & found.values.keys():
        number = reader.constant(found.values[name])
        if number is None:
            return None
        numbers[name] = number
    return numbers


def glu(reader: Reader, value: ValueId) -> Match | None:
    """Match one half of an array times the logistic function of the other half."""
    for found in matches(reader, curve.GLU, value):
        x, gate = found.values["x"], found.values[curve.GATE]
        halves = [node for v in (x, gate) if (node := reader.made_by(v, "slice")) is not None]
        if len(halves) == 2 and _are_halves(reader, *halves):
            return Match("glu", {"x": x, "gate": gate}, {})
    return None


def _are_halves(reader: Reader, one: Node, other: Node) -> bool:
    """Say whether two slices are the first and the second half of one array along an axis."""
    whole, half = reader.shape(one.inputs[0]), reader.shape(one.outputs[0])
    first, second = (0,) * len(whole), tuple(w - h for w, h in zip(whole, half, strict=True))
    steps = {node.attribute("strides") for node in (one, other)}
    return (
        reader.base(one.inputs[0]) == reader.base(other.inputs[0])
        and whole == reader.shape(other.inputs[0])
        and {node.attribute("start") for node in (one, other)} == {first, second}
        and math.prod(whole) == 2 * math.prod(half)
        and steps == {(1,) * len(whole)}
        and half == reader.shape(other.outputs[0])
    )
