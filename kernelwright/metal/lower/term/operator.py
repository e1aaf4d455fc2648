"""Which scalar op computes an elementwise op of the graph, and what its result is called."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp, canonical_op, is_identity
from kernelwright.metal.target.msl.spelling import FAST, MSL_TYPE, function_name, spelling

NOUNS = {
    "add": "sum",
    "subtract": "difference",
    "multiply": "product",
    "divide": "ratio",
    "floor_divide": "quotient",
    "remainder": "remainder",
    "maximum": "upper",
    "minimum": "lower",
    "power": "power",
    "select": "choice",
    "negative": "opposite",
    "abs": "magnitude",
    "square": "square",
    "sqrt": "root",
    "rsqrt": "inverse_root",
    "exp": "exponential",
    "expm1": "growth",
    "log": "logarithm",
    "log1p": "logarithm",
    "sigmoid": "gate",
    "tanh": "tangent",
    "sin": "sine",
    "cos": "cosine",
    "erf": "error",
    "floor": "whole",
    "ceil": "whole",
    "round": "nearest",
    "cast": "number",
}
"""What a person would call the result of an op."""


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A scalar op, and whether its result may be off by a few roundings of float."""

    op: str
    is_fast: bool = False


def exponential_for(graph: Graph) -> str:
    """Return the exponential of a softmax that is as exact as the graph's results are stored.

    Its arguments are not positive, and MLX's own softmax takes the fast one for every dtype
    (softmax_exp in mlx/backend/metal/kernels/softmax.h, MLX 0.32).
    """
    return function_name(ScalarOp.EXP, is_fast=not stores_floats(graph))


def stores_floats(graph: Graph) -> bool:
    """Say whether a result is stored as precisely as it is computed."""
    return any(t.dtype is Dtype.FLOAT32 for t in graph.output_types)


def intrinsic(
    op: str, operands: Sequence[Dtype], result: Dtype, stored: Dtype | None = None
) -> Intrinsic:
    """Return what computes an elementwise op over computed dtypes.

    `stored` is the dtype to which MLX would round the result, where it is another one.

    Raises:
        UnsupportedError: the op has no MSL expression for these dtypes.
    """
    kind = operands[-1] if operands else result
    if unsupported := [d for d in (*operands, result) if d not in MSL_TYPE]:
        raise UnsupportedError(f"{op} over {unsupported[0].short} has no Metal kernel yet.")
    known = canonical_op(op, kind)
    is_fast = stored in (Dtype.FLOAT16, Dtype.BFLOAT16) and known in FAST
    is_spelled = spelling(known, kind, result, is_fast=is_fast) is not None
    if not is_spelled and not is_identity(known, kind, result):
        raise UnsupportedError(f"{op} over {kind.short} has no Metal kernel yet.")
    return Intrinsic(known, is_fast)
