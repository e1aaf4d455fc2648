"""What errors do where values are only moved: they move along."""

from collections.abc import Sequence

import numpy as np

from kernelwright.evaluator.oracle.tracked import ANYTHING, Tracked
from kernelwright.ir.ops import Call, Domain, Kind, Op
from kernelwright.ir.ops.op import Array


def data_places(op: Op, count: int) -> set[int]:
    """Return which of `count` operands hold the values that an op moves; all else says where."""
    places = op.behaviour.data_places
    return {p % count for p in (range(count) if places is None else places)} if count else set()


def moves(op: Op, call: Call) -> bool:
    """Say whether an op makes no value that it did not read."""
    combines = "reduce" in call.attributes and call.attributes["reduce"] != "none"
    if op.kind is Kind.VIEW or op.name == "depends":
        return True
    return op.kind is Kind.INDEXING and Domain.PACKED not in op.behaviour.domains and not combines


def errors_of_move(
    op: Op, call: Call, read: Sequence[Tracked], made: Sequence[Array]
) -> list[Tracked]:
    """Move errors as values are moved; a place that is uncertain makes anything of the result."""
    assert op.meaning is not None
    data = data_places(op, len(read))
    is_stored = all(read[p].is_stored for p in data)
    uncertain = any(r.error is not None and p not in data for p, r in enumerate(read))
    if uncertain:
        return [
            Tracked(m, np.full(m.shape, ANYTHING), t.dtype, is_stored=False)
            for m, t in zip(made, call.outputs, strict=True)
        ]
    # Where some are rounded already and others are not, all carry their rounding with them.
    same = all(read[p].is_stored == is_stored for p in data)
    form = read[0].form if len(read) == 1 else None
    errors = {p: read[p].error if same else read[p].read_error() for p in data}
    if all(e is None for e in errors.values()):
        return [
            Tracked(m, None, t.dtype, is_stored, form)
            for m, t in zip(made, call.outputs, strict=True)
        ]
    arrays = [
        (np.zeros(r.values.shape) if errors[p] is None else errors[p]) if p in data else r.values
        for p, r in enumerate(read)
    ]
    result = op.meaning(call, *arrays)
    results = result if isinstance(result, tuple) else (result,)
    return [
        Tracked(m, np.asarray(e, np.float64), t.dtype, is_stored, form)
        for m, e, t in zip(made, results, call.outputs, strict=True)
    ]
