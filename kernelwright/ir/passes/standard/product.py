"""Products of a value with its own gate or norm, factor by factor in one order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.match.pattern import match
from kernelwright.ir.match.polynomial import polynomial
from kernelwright.ir.match.row import MEAN_SQUARE
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import (
    BuilderSource,
    bare,
    filled,
    is_float,
    is_near,
    number,
    ordered,
    same,
)

_MOST_FACTORS = 6
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def _gated(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Multiply x with its gate first, then the scale, then what took more work.

    The gate of x is at most 2 and a norm's factor makes x as large as its row's length at
    most, so that no other order overflows less.
    """
    if node.op != "multiply" or not is_float(builder, node):
        return None
    factors = _factors(builder, node)
    if len(factors) < 2 or len(factors) > _MOST_FACTORS:
        return None
    for gate, x in permutations(factors, 2):
        product = _apart(builder, node, [gate, x])
        written = None if product is None else _gate_of(builder, gate, x, product.scale)
        if product is not None and written is not None:
            return [_chain(builder, x, written, product.others)]
    return None


def _factors(builder: GraphBuilder, node: Node) -> list[ValueId]:
    """Take a product apart, as far as multiplications of its own shape reach."""
    factors: list[ValueId] = []
    for value in node.inputs:
        inner = builder.made_by(value, "multiply")
        if inner is not None:
            factors += _factors(builder, inner)
        elif number(builder, value) is None:
            factors.append(value)
    return factors


@dataclass(frozen=True, slots=True)
class _Product:
    """What is multiplied beside some factors, the innermost first, and the numbers among it."""

    others: tuple[ValueId, ...] = ()
    scale: float = 1.0


def _apart(builder: GraphBuilder, node: Node, taken: list[ValueId]) -> _Product | None:
    """Take some factors out of a product, removing from `taken` those that it holds.

    What is a product without them stays one, as it may be small where each of its factors is not.
    None where both sides of one product hold a factor beside another one: whichever of those
    came first might overflow.
    """
    product = _Product()
    is_left: list[ValueId] = []
    for value in sorted(node.inputs, key=builder.depth, reverse=True):
        inner, held = builder.made_by(value, "multiply"), number(builder, value)
        if held is not None:
            product = replace(product, scale=product.scale * held)
        elif value in taken:
            taken.remove(value)
        elif inner is not None and not set(taken).isdisjoint(_factors(builder, inner)):
            found = _apart(builder, inner, taken)
            if found is None or (found.others and product.others):
                return None
            product = _Product(product.others + found.others, product.scale * found.scale)
        else:
            is_left.append(value)
    return replace(product, others=(*product.others, *is_left))


def _chain(
    builder: GraphBuilder, x: ValueId, gate: tuple[ValueId, float], others: Sequence[ValueId]
) -> ValueId:
    factor, scale = gate
    result = ordered(builder, "multiply", x, factor)
    if scale != 1.0:
        result = same(builder, "multiply", result, filled(builder, scale, result))
    for other in others:
        result = ordered(builder, "multiply", result, other)
    return result


def _gate_of(
    builder: GraphBuilder, gate: ValueId, x: ValueId, scale: float
) -> tuple[ValueId, float] | None:
    """Return a gate or norm factor of x as it should be written, and the scale beside it."""
    sigmoid = builder.made_by(gate, "sigmoid")
    if sigmoid is not None and scale == 1.0:
        return (gate, 1.0) if _is_multiple(builder, sigmoid.inputs[0], x) else None
    root = builder.made_by(bare(builder, gate), "rsqrt")
    if root is not None and scale == 1.0:
        return (gate, 1.0) if _is_spread_of(builder, root.inputs[0], x) else None
    shifted = builder.made_by(gate, "add")
    if shifted is None or number(builder, shifted.inputs[1]) != 1.0 or scale != 0.5:
        return None
    return _half_gate(builder, shifted.inputs[0], x)


def _half_gate(builder: GraphBuilder, inner: ValueId, x: ValueId) -> tuple[ValueId, float] | None:
    """Read `1 + erf(..)` and `1 + tanh(..)`, which stand beside a half."""
    node, dtype = builder.producer(inner), builder.types[x].dtype
    if node is None or node.op not in ("erf", "tanh"):
        return None
    terms = polynomial(BuilderSource(builder), node.inputs[0], x)
    if terms is None:
        return None
    if node.op == "erf":
        if set(terms) != {1} or not is_near(terms[1], math.sqrt(0.5), dtype):
            return None
        argument = same(builder, "multiply", x, filled(builder, math.sqrt(0.5), x))
        return _one_more(builder, same(builder, "erf", argument)), 0.5
    if set(terms) == {1} and terms[1] == 0.5:
        # (1 + tanh(x / 2)) / 2 is the logistic function, which loses nothing below zero.
        return same(builder, "sigmoid", x), 1.0
    if set(terms) != {1, 3} or not is_near(terms[1], _TANH_SCALE, dtype):
        return None
    if not is_near(terms[3], _TANH_SCALE * _TANH_CUBE, dtype):
        return None
    cube = same(builder, "power", x, filled(builder, 3.0, x))
    scaled = same(builder, "multiply", cube, filled(builder, _TANH_CUBE, x))
    total = ordered(builder, "add", scaled, x)
    argument = same(builder, "multiply", total, filled(builder, _TANH_SCALE, x))
    return _one_more(builder, same(builder, "tanh", argument)), 0.5


def _one_more(builder: GraphBuilder, value: ValueId) -> ValueId:
    return same(builder, "add", value, filled(builder, 1.0, value))


def _is_multiple(builder: GraphBuilder, value: ValueId, x: ValueId) -> bool:
    terms = polynomial(BuilderSource(builder), value, x)
    return terms is not None and set(terms) == {1}


def _is_spread_of(builder: GraphBuilder, value: ValueId, x: ValueId) -> bool:
    """Say whether a value is the mean of squares of x, plus an epsilon or not."""
    shifted = builder.made_by(value, "add")
    if shifted is not None and number(builder, shifted.inputs[1]) is not None:
        value = shifted.inputs[0]
    found = match(BuilderSource(builder), MEAN_SQUARE, value)
    return found is not None and found.values["x"] == x


RULES: tuple[Rule, ...] = (_gated,)
