"""What the elements of a row have wrong in common: the error of one number that all of them read.

Errors of roundings are independent, so that those of a sum's terms cancel in part. That of a row's
mean, or of the logarithm of its sum of exponentials, moves all terms at once: how far it moves
their sum follows from the sum of what it does to each, with its sign.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelwright.evaluator.oracle.error_of_exponentials import share_lost
from kernelwright.evaluator.oracle.float_format import Reals
from kernelwright.evaluator.oracle.tracked import Common, Tracked
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, Op, op_named
from kernelwright.ir.ops.op import Array

_MOST_SOURCES = 4
"""Numbers of a row whose errors are followed at once."""


def values_that_are_summed(graph: Graph) -> frozenset[ValueId]:
    """Return the values of whose elements sums are made later on, through single elements."""
    found: set[ValueId] = set()
    for node in reversed(graph.nodes):
        op = op_named(node.op)
        if adds_terms(op) or (_keeps_elements(op) and found.intersection(node.outputs)):
            found.update(node.inputs)
    return frozenset(found)


def adds_terms(op: Op) -> bool:
    """Say whether an op adds up terms whose errors it takes for independent."""
    return op.name in ("sum", "mean", "matmul")


def with_common(node: Node, op: Op, call: Call, read: Sequence[Tracked], made: Tracked) -> Tracked:
    """Return a value with the errors that its elements have in common, signed, by their source."""
    if made.values.dtype.kind != "f":
        return made
    if op.name == "broadcast":
        error = made.read_error()
        known = {source: op_meaning(op, call, [e]) for source, e in read[0].common.items()}
        if error is not None and made.values.size > read[0].values.size:
            known[node.outputs[0]] = np.where(np.isfinite(error), error, 0.0)
        return replace(made, common=known) if len(known) <= _MOST_SOURCES else made
    if op.behaviour.makes_weights:
        # They are divided by one sum, and all gain what that has lost.
        gained = made.values * share_lost(read[0].values)
        known = {node.outputs[0]: np.where(np.isfinite(gained), gained, 0.0)}
        return replace(made, common=known) if gained.any() else made
    if not _keeps_elements(op) or not any(r.common for r in read):
        return made
    common = moved_in_common(op, call, read, made.values)
    return replace(made, common=common) if len(common) <= _MOST_SOURCES else made


def moved_in_common(op: Op, call: Call, read: Sequence[Tracked], made: Array) -> Common:
    """Return what each error that operands have in common does to an op's result."""
    found: dict[ValueId, Reals] = {}
    for source in dict.fromkeys(source for r in read for source in r.common):
        arrays = [r.values + r.common[source] if source in r.common else r.values for r in read]
        away = op_meaning(op, call, arrays) - made
        found[source] = np.where(np.isfinite(away), away, 0.0)
    return found


def op_meaning(op: Op, call: Call, arrays: Sequence[Array]) -> Array:
    """Return the only result of an op."""
    assert op.meaning is not None
    return np.asarray(op.meaning(call, *arrays))


def _keeps_elements(op: Op) -> bool:
    return op.kind is Kind.ELEMENTWISE or op.name in ("broadcast", "reshape")
