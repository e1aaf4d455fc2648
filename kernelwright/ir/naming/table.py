"""The tables of an idiom that a kernel computes inside, as the sines of rope."""

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.graph.kept import kept_with_graph
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.ops import Kind, op_named


def with_tables(graph: Graph, idiom: Idiom, taken: set[int]) -> set[int]:
    """Add what an idiom reads and a kernel computes inside, as rope its angles: made of counts."""
    # Where the angles of rope begin may be an array.
    counted = _counted_from_offsets(graph) if idiom.name == "rope" else _counted(graph)
    found = set(idiom.indices)
    frontier = [v for i in found for v in graph.nodes[i].inputs]
    while frontier:
        value = frontier.pop()
        maker = graph.producer_of.get(value)
        if value in counted and maker is not None and maker not in found and maker not in taken:
            found.add(maker)
            frontier.extend(graph.nodes[maker].inputs)
    return found


@kept_with_graph
def _counted(graph: Graph) -> frozenset[ValueId]:
    return _made_of(graph, set(graph.constant_of))


@kept_with_graph
def _counted_from_offsets(graph: Graph) -> frozenset[ValueId]:
    types = graph.types
    offsets = {v for v in graph.inputs if types[v].size == 1 and not types[v].dtype.is_float}
    return _made_of(graph, offsets.union(graph.constant_of))


def _made_of(graph: Graph, known: set[ValueId]) -> frozenset[ValueId]:
    for node in graph.nodes:
        if op_named(node.op).kind is not Kind.RANDOM and known.issuperset(node.inputs):
            known.update(node.outputs)
    return frozenset(known)
