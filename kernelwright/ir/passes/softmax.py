"""Writing a softmax out as the exponentials that it is made of."""

from collections.abc import Sequence

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.view import broadcast


def expand_softmax(graph: Graph) -> Graph:
    """Write every softmax as exponentials of what is less than its row's maximum, over their sum.

    The meaning is the same; the steps show where a kernel has to round.
    """
    return rewrite(graph, [_expand])


def _expand(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "softmax":
        return None
    x, (type_,) = node.inputs[0], call.outputs
    last = (len(type_.shape) - 1,)
    peak = broadcast(builder, builder.apply("max", x, axes=last), type_.shape)
    (difference,) = builder.add("subtract", (x, peak), [type_])
    (exponential,) = builder.add("exp", (difference,), [type_])
    total = broadcast(builder, builder.apply("sum", exponential, axes=last), type_.shape)
    return builder.add("divide", (exponential, total), [type_])
