"""Ops that order one axis."""

import numpy as np

from kernelwright.ir.ops.behaviour import Behaviour
from kernelwright.ir.ops.op import Array, Call, Kind, Meaning, MlxCall, Op, Relation, Shape
from kernelwright.ir.ops.relation import along_axis, ranked


def _sort(call: Call, x: Array) -> Array:
    return np.sort(x, axis=call.integer("axis"), stable=True)


def _argsort(call: Call, x: Array) -> Array:
    return np.argsort(x, axis=call.integer("axis"), stable=True)


def _search(call: Call, values: Array, wanted: Array) -> Array:
    side = "right" if call.flag("right") else "left"
    return np.searchsorted(values, wanted, side=side)


def _ranks(call: Call) -> slice:
    start, step = call.integer("start"), call.integer("step")
    stop = start + step * call.integer("count")
    return slice(start, None if stop < 0 else stop, step)


def _sorted_slice(call: Call, x: Array) -> Array:
    return _sort(call, x)[..., _ranks(call)]


def _argsorted_slice(call: Call, x: Array) -> Array:
    return _argsort(call, x)[..., _ranks(call)]


def _taken(call: Call) -> tuple[Shape, ...]:
    return ((*call.inputs[0].shape[:-1], call.integer("count")),)


def _like_wanted(call: Call) -> tuple[Shape, ...]:
    return (call.inputs[1].shape,)


# A partition promises only which values stand on each side of `kth`: the oracle gives sorted
# order, which is one of the answers that it allows.
_SLICE = ("axis", "start", "step", "count", "kth")
"""Ranks `start`, `start + step` … of the last axis; `kth` is that of a partition, -1 of a sort."""
_JUMPING = Behaviour(is_continuous=False, is_total=True)
_PLACES = Behaviour(is_continuous=False, is_total=True, makes_places=True)


def _ordering(
    name: str,
    meaning: Meaning,
    *attributes: str,
    primitive: str = "",
    relation: Relation | None = None,
) -> Op:
    return Op(
        name,
        Kind.SORT,
        meaning,
        attributes,
        mlx=MlxCall(name, tuple((a, a) for a in attributes)),
        primitive=primitive,
        behaviour=_PLACES if name.startswith("arg") else _JUMPING,
        relation=relation,
    )


OPS: tuple[Op, ...] = (
    Op(
        "sorted_slice",
        Kind.SORT,
        _sorted_slice,
        _SLICE,
        _taken,
        behaviour=_JUMPING,
        relation=ranked,
    ),
    Op(
        "argsorted_slice",
        Kind.SORT,
        _argsorted_slice,
        _SLICE,
        _taken,
        behaviour=_PLACES,
        relation=ranked,
    ),
    _ordering("sort", _sort, "axis", relation=along_axis),
    _ordering("argsort", _argsort, "axis", primitive="ArgSort", relation=along_axis),
    _ordering("partition", _sort, "kth", "axis"),
    _ordering("argpartition", _argsort, "kth", "axis", primitive="ArgPartition"),
    Op(
        "search_sorted",
        Kind.SORT,
        _search,
        ("right",),
        _like_wanted,
        behaviour=Behaviour(is_total=True),
    ),
)
