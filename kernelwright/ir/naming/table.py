"""The tables of an idiom that a kernel computes inside, as the sines of rope."""

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.ops import Kind, op_named


def with_tables(graph: Graph, idiom: Idiom, taken: set[int]) -> set[int]:
    """Add what an idiom reads and a kernel computes inside, as rope its angles: made of counts."""
    indices = idiom.indices
    counted: set[ValueId] = set(graph.constant_of)
    if idiom.name == "rope":
        # Where its angles begin, which may be an array.
        types = graph.types
        counted |= {v for v in graph.inputs if types[v].size == 1 and not types[v].dtype.is_float}
    for node in graph.nodes:
        if op_named(node.op).kind is not Kind.RANDOM and counted.issuperset(node.inputs):
            counted.update(node.outputs)
    found = set(indices)
    frontier = [v for i in found for v in graph.nodes[i].inputs]
    while frontier:
        value = frontier.pop()
        maker = graph.producer_of.get(value)
        if value in counted and maker is not None and maker not in found | taken:
            found.add(maker)
            frontier.extend(graph.nodes[maker].inputs)
    return found
