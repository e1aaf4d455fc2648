"""The op table: every operation that a graph may hold, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from kernelwright.ir.ops import (
    attention,
    barrier,
    contraction,
    elementwise,
    indexing,
    random,
    reduction,
    scan,
    sort,
    view,
)
from kernelwright.ir.ops.axes import reduced_axes
from kernelwright.ir.ops.barrier import _as_recorded
from kernelwright.ir.ops.batching import batch_axes
from kernelwright.ir.ops.behaviour import Behaviour, Domain
from kernelwright.ir.ops.elementwise import exact_dtype
from kernelwright.ir.ops.op import Call, Kind, MlxCall, Op
from kernelwright.ir.ops.reduction import mean_divisor

_MODULES = (
    elementwise,
    reduction,
    scan,
    contraction,
    attention,
    view,
    indexing,
    sort,
    random,
    barrier,
)

_TABLE = {op.name: op for m in _MODULES for op in m.OPS}
OPS: Mapping[str, Op] = MappingProxyType(_TABLE)


def op_named(name: str) -> Op:
    """Return an op's record; a name that the table does not hold is a barrier."""
    known = OPS.get(name)
    return known or Op(name, Kind.BARRIER, None, shapes=_as_recorded)


__all__ = [
    "OPS",
    "Behaviour",
    "Call",
    "Domain",
    "Kind",
    "MlxCall",
    "Op",
    "batch_axes",
    "exact_dtype",
    "mean_divisor",
    "op_named",
    "reduced_axes",
]
