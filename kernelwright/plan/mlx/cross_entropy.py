"""Which losses MLX has a kernel of its own for."""

from collections.abc import Mapping

from kernelwright.ir.graph import Graph
from kernelwright.ir.naming.idioms import Idiom

SIGN_OF_LOSS: Mapping[str, int] = {"cross_entropy": 1, "log_likelihood": -1}
"""What `mx.fast.cross_entropy` is multiplied by to give an idiom."""


def has_mlx_cross_entropy(graph: Graph, loss: Idiom) -> bool:
    """Say whether `mx.fast.cross_entropy` computes a loss: one index a row of the last axis."""
    operands = dict(loss.operands)
    x, target = graph.types[operands["x"]], graph.types[operands["target"]]
    rows = x.size // x.shape[-1]
    return (
        loss.parameter("axes") in ((len(x.shape) - 1,), (-1,))
        and x.dtype.is_float
        and target.dtype.is_integer
        and target.size == rows == graph.types[loss.output].size
    )
