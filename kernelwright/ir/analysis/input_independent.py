"""Values that hang on no input, so that anybody can compute them beforehand."""

from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops.op import Array


@dataclass(frozen=True)
class Known:
    """What is known of a graph before its inputs are."""

    graph: Graph

    @cached_property
    def _reached(self) -> frozenset[ValueId]:
        reached = set(self.graph.inputs)
        for node in self.graph.nodes:
            if reached.intersection(node.inputs):
                reached.update(node.outputs)
        return frozenset(reached)

    def has(self, value: ValueId) -> bool:
        """Say whether a value is the same whatever the inputs are."""
        return value not in self._reached

    def value(self, value: ValueId) -> Array:
        """Compute a value that hangs on no input, once."""
        if value not in self._computed:
            self._computed[value] = self._compute(value)
        return self._computed[value]

    @cached_property
    def _computed(self) -> dict[ValueId, Array]:
        return {}

    def _compute(self, value: ValueId) -> Array:
        needed, frontier = {value}, [value]
        indices = set[int]()
        while frontier:
            index = self.graph.producer_of.get(frontier.pop())
            if index is not None and index not in indices:
                indices.add(index)
                frontier += self.graph.nodes[index].inputs
                needed.update(self.graph.nodes[index].inputs)
        part = replace(
            self.graph,
            inputs=(),
            # A model's weights take long to convert.
            constants=tuple((v, held) for v, held in self.graph.constants if v in needed),
            nodes=tuple(self.graph.nodes[index] for index in sorted(indices)),
            outputs=(value,),
            names=(),
        )
        return reference(part, [])[0]
