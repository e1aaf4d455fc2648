"""Ops that carry a running value along one axis."""

import numpy as np

from kernelwright.ir.ops.behaviour import Behaviour
from kernelwright.ir.ops.elementwise import exact_dtype
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op

_ATTRIBUTES = ("axis", "reverse", "inclusive")
_IDENTITY: dict[str, float] = {
    "cumsum": 0.0,
    "cumprod": 1.0,
    "cummax": -np.inf,
    "cummin": np.inf,
    "logcumsumexp": -np.inf,
}


def _identity(name: str, dtype: np.dtype) -> np.generic | complex:
    value = _IDENTITY[name]
    if np.isfinite(value) or dtype.kind == "f":
        return dtype.type(value)
    if dtype.kind == "c":
        return complex(value, value)
    if dtype.kind == "b":
        return np.bool_(value > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if value < 0 else limits.max)


def _scan(name: str, ufunc: np.ufunc, variant: int, behaviour: Behaviour) -> Op:
    def meaning(call: Call, x: Array) -> Array:
        axis = call.integer("axis")
        ordered = np.flip(x, axis) if call.flag("reverse") else x
        is_bool = ordered.dtype.kind == "b"
        dtype = exact_dtype(call.outputs[0].dtype) if is_bool else ordered.dtype
        result: Array = ufunc.accumulate(ordered, axis=axis, dtype=dtype)
        if not call.flag("inclusive"):
            first = np.full_like(np.take(result, [0], axis), _identity(name, result.dtype))
            kept = np.take(result, np.arange(result.shape[axis] - 1), axis)
            result = np.concatenate([first, kept], axis)
        return np.flip(result, axis) if call.flag("reverse") else result

    return Op(
        name,
        Kind.SCAN,
        meaning,
        attributes=_ATTRIBUTES,
        mlx=MlxCall(name, tuple((a, a) for a in _ATTRIBUTES)),
        primitive="Scan",
        variant=variant,
        behaviour=behaviour,
    )


_SUM = Behaviour(is_total=True, accumulates=True)
_EXTREME = Behaviour(is_total=True)

OPS: tuple[Op, ...] = (
    _scan("cumsum", np.add, 2, _SUM),
    _scan("cumprod", np.multiply, 3, _SUM),
    _scan("cummax", np.maximum, 0, _EXTREME),
    _scan("cummin", np.minimum, 1, _EXTREME),
    _scan("logcumsumexp", np.logaddexp, 4, Behaviour(accumulates=True)),
)
