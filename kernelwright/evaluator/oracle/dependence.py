"""What the outputs of a graph hang on: inputs, dtypes that round on the way, flags alone."""

from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, op_named


def constant_outputs(graph: Graph) -> frozenset[int]:
    """Return the places of the outputs that are the same whatever the inputs are.

    A choice under a condition that hangs on no input hangs on the chosen arm alone, and a
    product with zero on nothing, infinities aside.
    """
    known, hanging = Known(graph), set(graph.inputs)
    for node in graph.nodes:
        if hanging.intersection(_read(known, node)):
            hanging.update(node.outputs)
    return frozenset(i for i, value in enumerate(graph.outputs) if value not in hanging)


def _read(known: Known, node: Node) -> tuple[ValueId, ...]:
    """Return what a node reads that can matter."""
    if op_named(node.op).behaviour.chooses and known.has(node.inputs[0]):
        condition, (_, taken, other) = known.value(node.inputs[0]), node.inputs
        arms = ((taken, bool(condition.any())), (other, not condition.all()))
        return tuple(arm for arm, is_read in arms if is_read)
    if op_named(node.op).behaviour.annihilates and any(
        known.has(v) and not known.value(v).any() for v in node.inputs
    ):
        return ()
    return node.inputs


def precisions(graph: Graph) -> tuple[Dtype, ...]:
    """Return the dtype that says how exact each output can be.

    It is the output's own, or a coarser float that MLX rounds to on the way: `x` in bfloat16
    and back in float32 has the digits of bfloat16. What is only copied rounds nothing.
    """
    coarsest: dict[ValueId, Dtype] = {}
    for node in graph.nodes:
        read = [coarsest[v] for v in node.inputs if v in coarsest]
        for value in node.outputs:
            own = graph.types[value].dtype
            makes = op_named(node.op).kind not in (Kind.VIEW, Kind.INDEXING)
            found = [*read, own] if makes and own.is_float else read
            if found and own.is_float:
                coarsest[value] = max(found, key=lambda d: d.epsilon)
    return tuple(coarsest.get(v, graph.types[v].dtype) for v in graph.outputs)


def discrete_outputs(graph: Graph) -> frozenset[int]:
    """Return the places of the float outputs that are whole numbers, or picked from constants.

    A mask of zeros and minus infinity is one: lower precision cannot show in it.
    """
    discrete = {v for v, t in enumerate(graph.types) if not t.dtype.is_float}
    discrete.update(graph.constant_of)
    for node in graph.nodes:
        op = op_named(node.op)
        moves = op.kind in (Kind.VIEW, Kind.INDEXING)
        picks = (moves or op.behaviour.picks) and discrete.issuperset(node.inputs)
        if picks or op.behaviour.steps:
            discrete.update(node.outputs)
    return frozenset(i for i, value in enumerate(graph.outputs) if value in discrete)
