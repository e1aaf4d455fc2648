"""What sums lose whose terms come from several ops, where a kernel adds them up in another order.

`x @ w + b` may start with `b`, `4 x - (u + d)` may be `(4 x - u) - d`, and `sum(x) + y` may start
with `y`. Through additions, subtractions, constant factors, sums, matrix products, choices, casts
and views the terms stay known. A sum that many elements share is computed once, in its own order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kernelwright.evaluator.oracle.addends import FEW_TERMS, Addends
from kernelwright.evaluator.oracle.error_of_sums import (
    ALIKE,
    DEVIATIONS,
    SAMPLED,
    accumulated,
    alike,
    cancel_by_chance,
    overflowed,
    roundings,
)
from kernelwright.evaluator.oracle.error_rules import settled
from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals
from kernelwright.evaluator.oracle.tracked import ANYTHING, Tracked
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, Op, mean_divisor, op_named
from kernelwright.ir.ops.op import Array

_KEPT_GRAPHS = 64
_FACTOR_ROUNDINGS = {"multiply": 1.0, "divide": 5.0}
"""Of a product with a constant, and of one with a constant's inverse."""


@dataclass(frozen=True)
class Chains:
    """Which values of a graph are parts of sums that later ops make, and which are constant."""

    wanted: frozenset[ValueId]
    constant: frozenset[ValueId]


@lru_cache(maxsize=_KEPT_GRAPHS)
def chains_of(graph: Graph) -> Chains:
    """Find the values whose terms a later sum may take in another order."""
    reached = set(graph.inputs)
    for node in graph.nodes:
        if reached.intersection(node.inputs):
            reached.update(node.outputs)
    constant = frozenset(range(len(graph.types))) - reached
    wanted = set[ValueId]()
    for node in reversed(graph.nodes):
        op = op_named(node.op)
        if _joins(op):
            wanted.update(node.inputs)
        elif wanted.intersection(node.outputs):
            wanted.update(_passed(node, op, constant))
    return Chains(frozenset(wanted), constant)


def with_any_order(
    node: Node, op: Op, call: Call, read: Sequence[Tracked], made: Tracked, chains: Chains
) -> Tracked:
    """Widen a sum's error to that of any order of its terms, and say what they are."""
    if made.values.dtype.kind != "f":
        return made
    is_wanted = node.outputs[0] in chains.wanted
    has_terms = any(r.addends is not None for r in read)
    if op.kind is Kind.CONTRACTION:
        return made if is_wanted else replace(made, addends=None)
    if _joins(op) and (is_wanted or has_terms):
        found = _joined(op, call, read, made)
    elif is_wanted and has_terms:
        found = _carried(node, op, call, read, made.values, chains)
    else:
        return made
    if has_terms and _joins(op) and found is not None:
        made = _widened(made, found)
    return replace(made, addends=found if is_wanted else None)


def _joins(op: Op) -> bool:
    return len(op.behaviour.slopes) == 2 or op.name in ("sum", "mean", "cumsum")


def _passed(node: Node, op: Op, constant: frozenset[ValueId]) -> Sequence[ValueId]:
    """Return the operands whose terms are those of the result, but for a constant factor."""
    if op.kind is Kind.VIEW or op.behaviour.converts or op.behaviour.slopes:
        return node.inputs if len(node.inputs) == 1 else ()
    if op.behaviour.chooses:
        return node.inputs[1:]
    if op.name == "multiply":
        return [v for v in node.inputs if v not in constant] if constant & {*node.inputs} else ()
    return node.inputs[:1] if op.name == "divide" and node.inputs[1] in constant else ()


def _widened(made: Tracked, addends: Addends) -> Tracked:
    values, size = made.values, addends.size
    lost = addends.error_in_any_order()
    lost = np.where(np.isfinite(lost) & np.isfinite(values), lost, 0.0)
    if (size > FLOAT32.largest).any():
        lost = overflowed(lost, size, values)
        lost = np.where(np.isinf(values) & (size > FLOAT32.largest), ANYTHING, lost)
    lost = lost if made.error is None else np.maximum(lost, made.error)
    return replace(made, error=settled(lost, values, made.dtype))


def _joined(op: Op, call: Call, read: Sequence[Tracked], made: Tracked) -> Addends | None:
    if op.name in ("sum", "mean"):
        return _of_sum(op, call, read[0], made)
    if op.name == "cumsum":
        return _of_scan(op, call, read[0], made)
    one, other = (r.addends or Addends.of_term(r.values, r.read_error()) for r in read)
    return one.plus(other)


def _of_sum(op: Op, call: Call, read: Tracked, made: Tracked) -> Addends | None:
    """Return the terms of all elements that a sum or a mean adds up."""
    x, count = read.values, read.values.size // max(made.values.size, 1)
    if count <= 1 or x.dtype.kind != "f":
        return None
    scale = 1.0 / abs(mean_divisor(call) or math.nan) if op.name == "mean" else 1.0
    axes = call.integers("axes")

    def total(each: Array) -> Reals:
        return np.asarray(scale * np.sum(each, axis=axes, keepdims=True))

    rows = np.moveaxis(x, axes, tuple(range(-len(axes), 0))).reshape(-1, count)
    factor = alike(rows).reshape(made.values.shape)
    cancels = cancel_by_chance(rows).reshape(factor.shape)
    walk = np.where(cancels, ALIKE / math.sqrt(count), factor)
    own, a = made.error, read.addends
    # Zeros are added without a rounding.
    kept = np.count_nonzero(x if a is None else a.size, axis=axes, keepdims=True)
    terms = np.asarray(kept * (1.0 if a is None else np.max(a.terms)), np.float64)
    if a is None:
        size = total(np.where(np.isfinite(x), np.abs(x), 0.0))
        return Addends.of_sum(terms, roundings(terms, walk), size, own)
    each = _inner_error(a)
    most = total(each)
    if count >= SAMPLED:
        root = np.sqrt(np.sum(np.square(each), axis=axes, keepdims=True))
        most = np.minimum(most, scale * DEVIATIONS * factor * root)
    size = total(a.size)
    error: Reals = most + accumulated(size / scale, terms, walk) * scale
    error = error if own is None else np.fmax(error, own)
    return Addends.of_sum(terms, roundings(terms, walk), size, error)


def _of_scan(op: Op, call: Call, read: Tracked, made: Tracked) -> Addends | None:
    """Return the terms of all elements up to each."""
    x, axis = read.values, call.integer("axis")
    if x.dtype.kind != "f":
        return None
    assert op.meaning is not None
    a = read.addends or Addends.of_term(x, read.read_error())
    count = x.shape[axis]
    rows = np.moveaxis(x, axis, -1)
    factor = np.expand_dims(alike(rows.reshape(-1, count)).reshape(rows.shape[:-1]), axis)
    size, each = (np.asarray(op.meaning(call, e)) for e in (a.size, _inner_error(a)))
    terms = count * int(np.max(a.terms))
    error = accumulated(size, terms, factor) + each
    error = error if made.error is None else np.fmax(error, made.error)
    return Addends.of_sum(terms, roundings(terms, factor), size, error)


def _inner_error(a: Addends) -> Reals:
    """Return what each element may be off that is added up by itself first."""
    inner = a.error_in_any_order() + (UNIT * a.size if np.max(a.terms) > 1 else 0.0)
    return np.asarray(np.broadcast_to(np.where(np.isfinite(inner), inner, 0.0), a.size.shape))


def _carried(
    node: Node, op: Op, call: Call, read: Sequence[Tracked], made: Array, chains: Chains
) -> Addends | None:
    """Return the terms of a result that has those of what it reads, moved, scaled or chosen."""
    passed = _passed(node, op, chains.constant)
    if not passed:
        return None
    if op.behaviour.chooses:
        return _chosen(read)
    place = node.inputs.index(passed[0])
    a = read[place].addends
    if a is None or op.behaviour.converts or op.behaviour.slopes:
        return a
    if op.name in _FACTOR_ROUNDINGS:
        by = read[1 - place].values
        return a.times(1.0 / by if op.name == "divide" else by, _FACTOR_ROUNDINGS[op.name])
    is_shared = made.size > a.size.size and np.max(a.terms) > FEW_TERMS
    return None if is_shared else _viewed(op, call, a)


def _viewed(op: Op, call: Call, a: Addends) -> Addends:
    meaning: Callable[..., object] | None = op.meaning
    assert meaning is not None

    def moved(part: Reals | float) -> Reals:
        return np.asarray(meaning(call, np.broadcast_to(part, a.size.shape)))

    kept = [p if np.ndim(p) == 0 else moved(p) for p in (a.terms, a.roundings, a.spent, a.error)]
    return Addends(kept[0], kept[1], moved(a.size), kept[2], kept[3])


def _chosen(read: Sequence[Tracked]) -> Addends | None:
    """Return the terms of the arm that a condition takes."""
    condition, *arms = read
    if condition.error is not None:
        return None
    one, other = (r.addends or Addends.of_term(r.values, r.read_error()) for r in arms)
    flags = condition.values.astype(bool)

    def either(a: Reals | float, b: Reals | float) -> Reals:
        return np.where(flags, a, b)

    return Addends(
        either(one.terms, other.terms),
        either(one.roundings, other.roundings),
        either(one.size, other.size),
        either(one.spent, other.spent),
        either(one.error, other.error),
    )
