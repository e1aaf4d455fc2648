"""Values that hang on no input, so that anybody can compute them beforehand."""

from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, Node, ValueId
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
        """Compute a value that hangs on no input."""
        needed, nodes = {value}, list[Node]()
        for node in reversed(self.graph.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                nodes.append(node)
        made = tuple(reversed(nodes))
        (array,) = reference(
            replace(self.graph, inputs=(), nodes=made, outputs=(value,), names=()), []
        )
        return array
