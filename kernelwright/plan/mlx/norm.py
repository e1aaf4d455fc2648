"""Which norms MLX has a kernel of its own for."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.region import Region

NORMS = frozenset({"rms_norm", "layer_norm"})


def has_mlx_norm(graph: Graph, norm: Idiom) -> bool:
    """Say whether `mx.fast.rms_norm` or `mx.fast.layer_norm` computes what a norm is.

    They work along the last axis, without a correction of the variance, and scale and shift by
    one vector each.
    """
    operands, parameters = dict(norm.operands), dict(norm.parameters)
    x = graph.types[operands["x"]]
    return (
        graph.types[norm.output] == x
        and parameters["axes"] in ((len(x.shape) - 1,), (-1,))
        and parameters.get("ddof", 0) == 0
        and all(graph.types[v].shape == x.shape[-1:] for k, v in norm.operands if k != "x")
        # MLX's kernel returns neither mean nor variance.
        and Region(graph, norm.indices).outputs == (norm.output,)
    )
