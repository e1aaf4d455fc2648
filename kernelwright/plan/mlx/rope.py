"""Which rotary embeddings MLX has a kernel of its own for."""

from dataclasses import replace

from kernelwright.ir.graph import Graph
from kernelwright.ir.match.graph_source import GraphSource
from kernelwright.ir.match.rope_call import RopeCall, rope_call
from kernelwright.ir.match.rotation import find_rotation
from kernelwright.ir.match.row_map import RowMaps
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.naming.idioms.reader import Reader

_COMPUTING = frozenset({"multiply", "add", "subtract", "sum", "matmul"})


class MlxRopes:
    """Finds calls of `mx.fast.rope` in one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._reader = Reader(graph)
        self._named = self._reader.maps
        source = GraphSource(graph)
        self._exact = RowMaps(graph, source, source, is_exact=True)

    def call(self, idiom: Idiom) -> RopeCall | None:
        """Return the call that a rotary embedding is, up to where it rounds."""
        found = find_rotation(self._named, idiom.output)
        made = self._graph.types[idiom.output]
        return None if found is None else rope_call(self._exact, found, made)

    def within(self, idiom: Idiom) -> tuple[Idiom, RopeCall] | None:
        """Return what of a rotary embedding is one call: all of it, or what a row's end shows.

        MLX turns the first places of rows. Those that are kept before what is turned are joined to
        it, as what they are joined with is cut from rows first.
        """
        if (call := self.call(idiom)) is not None:
            return idiom, call
        joined = self._graph.nodes[idiom.indices[-1]]
        for value in joined.inputs:
            operands = [v for _, v in idiom.operands]
            part = replace(idiom, output=value, indices=self._reader.covered(value, operands))
            if part.indices and (call := self.call(part)) is not None:
                return part, call
        return None

    def rounds_once(self, idiom: Idiom) -> bool:
        """Say whether products and their sums are kept wider than what is made of them.

        MLX's kernel on a GPU rounds as little. On a CPU it takes rope apart, where sines, products
        and sums are rounded each.
        """
        made = self._graph.types[idiom.output].dtype
        nodes = [self._graph.nodes[i] for i in idiom.indices]
        types = [self._graph.types[n.outputs[0]] for n in nodes if n.op in _COMPUTING]
        return any(type_.dtype.epsilon < made.epsilon for type_ in types)
