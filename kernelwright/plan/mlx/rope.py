"""Which rotary embeddings MLX has a kernel of its own for."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.match.graph_source import GraphSource
from kernelwright.ir.match.rope_call import RopeCall, rope_call
from kernelwright.ir.match.rotation import find_rotation
from kernelwright.ir.match.row_map import RowMaps
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.naming.idioms.reader import Reader

_COMPUTING = frozenset({"multiply", "add", "subtract"})


class MlxRopes:
    """Finds calls of `mx.fast.rope` in one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._named = Reader(graph).maps
        source = GraphSource(graph)
        self._exact = RowMaps(graph, source, source, is_exact=True)

    def call(self, idiom: Idiom) -> RopeCall | None:
        """Return the call that a rotary embedding is, up to where it rounds."""
        found = find_rotation(self._named, idiom.output)
        made = self._graph.types[idiom.output]
        return None if found is None else rope_call(self._exact, found, made)

    def rounds_once(self, idiom: Idiom) -> bool:
        """Say whether products and their sums are kept wider than what is made of them.

        MLX's kernel on a GPU rounds as little. On a CPU it takes rope apart, where sines, products
        and sums are rounded each.
        """
        made = self._graph.types[idiom.output].dtype
        nodes = [self._graph.nodes[i] for i in idiom.indices]
        types = [self._graph.types[n.outputs[0]] for n in nodes if n.op in _COMPUTING]
        return any(type_.dtype.epsilon < made.epsilon for type_ in types)
