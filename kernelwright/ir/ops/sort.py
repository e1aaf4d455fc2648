"""Ops that order one axis."""

import numpy as np

from kernelwright.ir.ops.op import Array, Call, Kind, Op, Shape


def _sort(call: Call, x: Array) -> Array:
    return np.sort(x, axis=call.integer("axis"), stable=True)


def _argsort(call: Call, x: Array) -> Array:
    return np.argsort(x, axis=call.integer("axis"), stable=True)


def _search(call: Call, values: Array, wanted: Array) -> Array:
    side = "right" if call.flag("right") else "left"
    return np.searchsorted(values, wanted, side=side)


def _like_wanted(call: Call) -> tuple[Shape, ...]:
    return (call.inputs[1].shape,)


# A partition promises only which values stand on each side of `kth`: the oracle gives sorted
# order, which is one of the answers that it allows.
OPS: tuple[Op, ...] = (
    Op("sort", Kind.SORT, _sort, ("axis",)),
    Op("argsort", Kind.SORT, _argsort, ("axis",)),
    Op("partition", Kind.SORT, _sort, ("kth", "axis")),
    Op("argpartition", Kind.SORT, _argsort, ("kth", "axis")),
    Op("search_sorted", Kind.SORT, _search, ("right",), _like_wanted),
)
