"""Ops that combine whole axes; a reduced axis stays, with size 1."""

import math
from collections.abc import Callable

import numpy as np

from kernelwright.ir.ops import relation
from kernelwright.ir.ops.axes import reduced_axes
from kernelwright.ir.ops.behaviour import PLAIN, Behaviour
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op, Shape


def _keep_axes(call: Call) -> tuple[Shape, ...]:
    axes, shape = reduced_axes(call), call.inputs[0].shape
    return (tuple(1 if i in axes else size for i, size in enumerate(shape)),)


def _reduce(
    name: str,
    function: Callable[..., Array],
    variant: int,
    behaviour: Behaviour = PLAIN,
    joined_by: str = "",
) -> Op:
    return Op(
        name,
        Kind.REDUCTION,
        lambda call, x: function(x, axis=call.integers("axes"), keepdims=True),
        attributes=("axes",),
        shapes=_keep_axes,
        mlx=MlxCall(name, (("axis", "axes"),), (("keepdims", True),)),
        primitive="Reduce",
        variant=variant,
        behaviour=behaviour,
        joined_by=joined_by,
    )


def _arg_reduce(name: str, function: Callable[..., Array], variant: int) -> Op:
    return Op(
        name,
        Kind.REDUCTION,
        lambda call, x: function(x, axis=call.integer("axis"), keepdims=True),
        attributes=("axis",),
        shapes=_keep_axes,
        mlx=MlxCall(name, (("axis", "axis"),), (("keepdims", True),)),
        primitive="ArgReduce",
        variant=variant,
        behaviour=_PLACE,
    )


def mean_divisor(call: Call) -> int:
    """Count what a mean divides by: the reduced elements less `ddof`."""
    shape = call.inputs[0].shape
    return math.prod(shape[axis] for axis in call.integers("axes")) - call.integer("ddof")


def _mean(call: Call, x: Array) -> Array:
    return np.sum(x, axis=call.integers("axes"), keepdims=True) / mean_divisor(call)


def _softmax(call: Call, x: Array) -> Array:
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def _logsumexp(call: Call, x: Array) -> Array:
    peak = np.max(x, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    return np.log(np.sum(np.exp(x - safe), axis=-1, keepdims=True)) + safe


_FLAGS = Behaviour(makes_bool=True, is_total=True, is_decided_by_one=True)
_EXTREME = Behaviour(
    is_extreme=True, is_total=True, absorbs=True, keeps_sign=True, is_decided_by_one=True
)
_PLACE = Behaviour(
    is_continuous=False,
    is_total=True,
    absorbs=True,
    is_decided_by_one=True,
    makes_places=True,
)

_PRODUCT = Behaviour(is_total=True, accumulates=True, absorbs=True)

OPS: tuple[Op, ...] = (
    _reduce("sum", np.sum, 2, Behaviour(is_total=True, accumulates=True, keeps_sign=True), "add"),
    _reduce("prod", np.prod, 3, _PRODUCT, "multiply"),
    _reduce("max", np.max, 5, _EXTREME, "maximum"),
    _reduce("min", np.min, 4, _EXTREME, "minimum"),
    _reduce("all", np.all, 0, _FLAGS),
    _reduce("any", np.any, 1, _FLAGS),
    _arg_reduce("argmin", np.argmin, 0),
    _arg_reduce("argmax", np.argmax, 1),
    Op(
        "mean",
        Kind.REDUCTION,
        _mean,
        attributes=("axes", "ddof", "form"),
        shapes=_keep_axes,
        behaviour=Behaviour(accumulates=True, keeps_sign=True),
        joined_by="add",
    ),
    Op(
        "softmax",
        Kind.REDUCTION,
        _softmax,
        attributes=("precise",),
        mlx=MlxCall("softmax", (("precise", "precise"),), (("axis", -1),)),
        flops_per_element=12,
        behaviour=Behaviour(is_bounded=True, makes_weights=True),
        relation=relation.along_axis,
    ),
    Op(
        "logsumexp",
        Kind.REDUCTION,
        _logsumexp,
        shapes=_keep_axes,
        mlx=MlxCall("logsumexp", (), (("axis", -1), ("keepdims", True))),
        primitive="LogSumExp",
        flops_per_element=10,
        behaviour=Behaviour(is_decided_by_one=True),
    ),
)
