"""Divisions by roots that a graph has anyway, which its standard form computes a second time."""

from collections.abc import Sequence

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import bare, repeated_as, same


def divide_by_shared_roots(graph: Graph) -> Graph:
    """Divide by a root where the graph has it already, instead of taking its reciprocal, too.

    The standard form multiplies by reciprocal roots: one op less, unless the root itself is
    wanted. It is the form to compare tasks in, this one the form in which MLX is cheapest.
    """
    roots: dict[ValueId, ValueId] = {}

    def rule(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
        if node.op == "sqrt":
            roots[node.inputs[0]] = same(builder, "sqrt", *node.inputs)
            return [roots[node.inputs[0]]]
        if node.op != "multiply":
            return None
        for above, inverse in (node.inputs, node.inputs[::-1]):
            made = builder.made_by(bare(builder, inverse), "rsqrt")
            if made is not None and made.inputs[0] in roots:
                root = roots[made.inputs[0]]
                if builder.types[root].shape != builder.types[inverse].shape:
                    root = repeated_as(builder, root, inverse)
                return [same(builder, "divide", above, root)]
        return None

    return rewrite(graph, (rule,), merge=True)
