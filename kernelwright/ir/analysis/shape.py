"""How the dimensions of each value follow from those of others, op by op."""

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dimension import Size
from kernelwright.ir.graph.equation import Equations
from kernelwright.ir.ops import Call, Kind, op_named, relation
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.op import Relation
from kernelwright.ir.ops.relation import Sizes


class Shapes:
    """The dimensions of every value of a graph, as sizes over free symbols.

    Afterwards two dimensions of the inputs with the same resolved symbol can only change
    together, and a dimension without a symbol cannot change at all.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.equations = Equations()
        self.of: dict[ValueId, Sizes] = {}
        self._slices: dict[ValueId, list[Call]] = {}
        for node in graph.nodes:
            if node.op == "slice":
                self._slices.setdefault(node.inputs[0], []).append(Call.of(graph, node))
        for value in graph.inputs:
            shape = graph.types[value].shape
            self.of[value] = tuple(self.equations.symbol(n, is_given=True) for n in shape)
        for value, constant in graph.constants:
            self.of[value] = tuple(Size.number(n) for n in constant.type.shape)
        for node in graph.nodes:
            for value in node.outputs:
                shape = graph.types[value].shape
                self.of[value] = tuple(self.equations.symbol(n) for n in shape)
            self._relate(node)
        self._keep_repetitions()

    def resolved(self, value: ValueId) -> Sizes:
        """Return a value's dimensions with all that is known put in."""
        return tuple(self.equations.resolved(size) for size in self.of[value])

    def equate(self, left: Sizes, right: Sizes, why: str) -> None:
        """Require two shapes of equal rank to be equal."""
        for a, b in zip(left, right, strict=True):
            self.equations.equate(a, b, why)

    def pin(self, value: ValueId, why: str) -> None:
        """Fix every dimension of a value."""
        for size in self.of[value]:
            self.equations.pin(size, why)

    def is_part(self, value: ValueId, axis: int, taken: int) -> bool:
        """Say whether the slices of a value cut an axis into equal parts, all of them used."""
        size = self.graph.types[value].shape[axis]
        if taken == 0 or size % taken:
            return False
        return self._starts(value, axis, taken) == set(range(0, size, taken))

    def is_window(self, value: ValueId, axis: int, taken: int) -> bool:
        """Say whether the slices of a value are like windows that slide from end to end."""
        size = self.graph.types[value].shape[axis]
        starts = self._starts(value, axis, taken)
        # They overlap, so that they are no parts of a fixed size.
        return len(starts) > 1 and {0, size - taken} <= starts and 2 * taken > size

    def _starts(self, value: ValueId, axis: int, taken: int) -> set[int]:
        """Return where slices of a length start whose stops were not counted from the end."""
        places = (
            slices(call)[axis]
            for call in self._slices.get(value, ())
            if call.outputs[0].shape[axis] == taken
        )
        return {place.start for place in places if place.step == 1 and place.stop > 0}

    def _keep_repetitions(self) -> None:
        """Fix how often something is repeated where no input has that many of anything."""
        for value in self.graph.inputs:
            for size in self.resolved(value):
                for symbols, _ in size.terms:
                    for symbol in symbols if len(symbols) > 1 else ():
                        if not self.equations.is_given(symbol):
                            self.equations.pin(Size.symbol(symbol), "it is repeated so often")

    def _relate(self, node: Node) -> None:
        call = Call.of(self.graph, node)
        op = op_named(node.op)
        relate = op.relation or _BY_KIND.get(op.kind, relation.fixed)
        relate(self, node, call)


_BY_KIND: dict[Kind, Relation] = {
    Kind.ELEMENTWISE: relation.alike,
    Kind.REDUCTION: relation.reduced,
    Kind.SCAN: relation.along_axis,
}
"""What holds where an op's record says nothing else; other kinds fix every size."""
