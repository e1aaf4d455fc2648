"""Which contractions a region should hold, and which of them MLX's own kernels would win."""

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Domain, Kind, op_named
from kernelwright.metal.family.contraction import DENSE, FEW_QUERIES, FEW_TOKENS, DenseSizes
from kernelwright.plan.mlx.attention import is_worth_tiling


def is_worth_holding(
    graph: Graph, node: Node, *, flops_per_byte: float, launch_bytes: float
) -> bool:
    """Say whether a region should hold a contraction: few rows, and more bytes than arithmetic.

    Tiles of an attention are multiplied on matrix units, as MLX's are where it has any.
    """
    if node.op in DENSE and DenseSizes.of(graph, node).tokens > FEW_TOKENS:
        return False
    if node.op == "attention" and graph.types[node.inputs[0]].shape[2] > FEW_QUERIES:
        call = Call.of(graph, node)
        if is_worth_tiling(call, makes_bias=_makes_bias(graph, node)):
            return True
    return is_memory_bound(graph, node, flops_per_byte=flops_per_byte, launch_bytes=launch_bytes)


def _makes_bias(graph: Graph, attention: Node) -> bool:
    """Say whether a mask of a number a head and score is made for an attention alone."""
    last = len(attention.inputs) - Call.of(graph, attention).flag("has_sinks")
    for mask in attention.inputs[3:last]:
        shape, maker = graph.types[mask].shape, graph.producer_of.get(mask)
        if maker is None or len(shape) < 3 or shape[-3] == 1:
            continue
        is_own = len(graph.consumers_of[mask]) == 1 and mask not in graph.outputs
        if is_own and op_named(graph.nodes[maker].op).kind is Kind.ELEMENTWISE:
            return True
    return False


def is_memory_bound(
    graph: Graph, node: Node, *, flops_per_byte: float, launch_bytes: float
) -> bool:
    """Say whether a contraction's arithmetic hides behind its bytes, on ordinary units.

    Where it does not, MLX's kernels win: they multiply on matrix units. `launch_bytes` are those
    that memory could move while a kernel is launched.
    """
    call = Call.of(graph, node)
    moved = sum(t.nbytes for t in (*call.inputs, *call.outputs))
    return op_named(node.op).flops(call) <= flops_per_byte * (moved + launch_bytes)


def chooses_matrices(node: Node) -> bool:
    """Say whether indices choose the matrices of a node's product, as a router does experts."""
    op, count = op_named(node.op), len(node.inputs)
    return op.kind is Kind.CONTRACTION and op.behaviour.domain(count - 1, count) is Domain.INDEX


def writes_no_more(graph: Graph) -> bool:
    """Say whether a graph's outputs are no more bytes than what its contractions make.

    What reads a result beside others belongs to them: a square, or a wider copy, to its norm and
    not to the product.
    """
    made = (v for n in graph.nodes if op_named(n.op).kind is Kind.CONTRACTION for v in n.outputs)
    return sum(t.nbytes for t in graph.output_types) <= sum(graph.types[v].nbytes for v in made)
