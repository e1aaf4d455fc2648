"""Which norms MLX has a kernel of its own for."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region

NORMS = frozenset({"rms_norm", "layer_norm"})
_IN_ORDER = frozenset({"reshape", "broadcast"})
"""Views that leave the elements of an array of the same size in their order."""


def has_mlx_norm(graph: Graph, norm: Idiom) -> bool:
    """Say whether `mx.fast.rms_norm` or `mx.fast.layer_norm` computes what a norm is.

    They work along the last axis, without a correction of the variance, and scale and shift by
    one vector each. Views between the operand and the norm may leave out axes, or tell heads apart.
    """
    operands, parameters = dict(norm.operands), dict(norm.parameters)
    x, made = graph.types[operands["x"]], graph.types[norm.output]
    return (
        (x.dtype, x.size) == (made.dtype, made.size)
        and parameters["axes"] in ((len(made.shape) - 1,), (-1,))
        and parameters.get("ddof", 0) == 0
        and all(graph.types[v].size == made.shape[-1] for k, v in norm.operands if k != "x")
        and keeps_order(graph, norm)
        # MLX's kernel returns neither mean nor variance.
        and Region(graph, norm.indices).outputs == (norm.output,)
    )


def keeps_order(graph: Graph, norm: Idiom) -> bool:
    """Say whether rows come out as they lie in memory: heads are told apart by a reshape."""
    views = {
        graph.nodes[i].op for i in norm.indices if op_named(graph.nodes[i].op).kind is Kind.VIEW
    }
    return views <= _IN_ORDER
