"""Products of few rows with a matrix as terms: the dot products, and what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.metal.family.contraction import (
    DENSE,
    GATHERED,
    dense_sizes,
    trouble_with_dense,
)
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, walk
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, unflatten
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.program.signature import RESERVED, Signature
from kernelwright.metal.lower.term.build import Builder
from kernelwright.metal.lower.term.chosen import chosen_pair
from kernelwright.metal.lower.term.view import Coordinates

PARTIAL = "chunk_sums"
"""The array in which threadgroups that share dot products leave their sums."""
_WORDS = """
    depth column first matrix token strip team lane place result c chunk part last next other
    slot lanes_sum
"""
TAKEN = (RESERVED - {"k"}) | {*_WORDS.split(), PARTIAL}
"""Words that a dense kernel writes itself."""
RESERVED_HERE = TAKEN | {"sums", "shared_sums", "total", "element"}
"""Words that no array of a dense kernel can be called."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One sum of products, of which a block of results has one for each of its elements."""

    total: Expr
    """What the kernel keeps in a variable."""
    row: Expr
    """An element of the row, over `depth`."""
    weight: Expr
    """An element of the matrix, over `depth` and `column`."""


@dataclass
class Dense(Builder):
    """Builds what follows matrix products whose rows are few.

    An output element stands at (matrix, token, column): which product of a batch, which of its
    rows, and where along it.
    """

    matrices: int = 1
    tokens: int = 1
    column: Axis = field(default_factory=lambda: Axis("column", 1))
    """Where along its row an output element stands."""
    depth: int = 1
    dots: dict[tuple[ValueId, int], Dot] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, signature: Signature, column: str = "column") -> "Dense":
        """Return the builder of a graph; `column` is what the kernel calls that place.

        Raises:
            UnsupportedError: the graph is not of this family.
        """
        if reason := trouble_with_dense(graph):
            raise UnsupportedError(f"{reason}; leave it to MLX.")
        sizes = dense_sizes(graph)
        columns = graph.output_types[0].size // (sizes.matrices * sizes.tokens)
        return cls(
            graph,
            signature.arrays,
            matrices=sizes.matrices,
            tokens=sizes.tokens,
            column=Axis(column, columns),
            depth=sizes.depth,
        )

    @property
    def rows(self) -> Index:
        """Which row of which product an element belongs to."""
        matrix, token = Axis("matrix", self.matrices), Axis("token", self.tokens)
        return Index.of(matrix) * self.tokens + Index.of(token)

    def stores(self, signature: Signature) -> list[Store]:
        """Return what is written of one element; the dot products below it are in `dots` then.

        Raises:
            UnsupportedError: an output is not made of its own row of the products.
        """
        place = self.rows * self.column.extent + Index.of(self.column)
        return [
            Store(name, place, self.element(value, unflatten(place, type_.shape)), type_.dtype)
            for value, (name, type_) in zip(self.graph.outputs, signature.outputs, strict=True)
        ]

    def _make(self, value: ValueId, places: Coordinates) -> Expr:
        maker = self.graph.producer_of.get(value)
        node = None if maker is None else self.graph.nodes[maker]
        if node is None or node.op not in DENSE:
            return super()._make(value, places)
        total = self._dot(node, places).total
        return self._with_bias(node, places, total) if node.op == "addmm" else total

    def _with_bias(self, node: Node, places: Coordinates, total: Expr) -> Expr:
        """Return `alpha * total + beta * bias`."""
        call = Call.of(self.graph, node)
        bias = node.inputs[2]
        rank = len(self.graph.types[bias].shape)
        added = self.element(bias, places[len(places) - rank :])
        alpha, beta = (self.number(call.number(n), Dtype.FLOAT32) for n in ("alpha", "beta"))
        product = self.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "product", total, alpha)
        scaled = self.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "bias_value", added, beta)
        return self.apply(ScalarOp.ADD, Dtype.FLOAT32, "sum", product, scaled)

    def _dot(self, node: Node, places: Coordinates) -> Dot:
        *lead, column = places
        shape = self.graph.types[node.outputs[0]].shape
        apart = column.minus(Index.of(self.column)).constant
        if flatten(lead, shape[:-1]) != self.rows or apart is None:
            raise UnsupportedError(
                f"{node.op} is read elsewhere than along its rows; split the region behind it."
            )
        key = (node.outputs[0], apart)
        if key not in self.dots:
            self.dots[key] = self._new_dot(node, lead, column)
        return self.dots[key]

    def _new_dot(self, node: Node, lead: Sequence[Index], column: Index) -> Dot:
        left, right = node.inputs[:2]
        depth = Index.of(Axis("depth", self.depth))
        if node.op in GATHERED:
            rows, matrix = chosen_pair(self, node, tuple(lead[:-1]))
            row = self.element(left, (*rows, lead[-1], depth))
            weight = self.element(right, (*matrix, depth, column))
        else:
            row = self._operand(left, (*lead, depth))
            weight = self._operand(right, (*lead[:-1], depth, column))
        if any(axis.name == "token" for axis in weight.axes):
            raise UnsupportedError(f"{node.op} has a matrix for each row; leave it to MLX.")
        axes = (self.rows + Index.of(self.column)).axes
        return Dot(self.terms.held(f"total_{len(self.dots)}", Dtype.FLOAT32, axes), row, weight)

    def _operand(self, value: ValueId, places: Coordinates) -> Expr:
        """Return an operand's element; MLX stretches a matrix over a batch."""
        rank = len(self.graph.types[value].shape)
        return self.element(value, places[len(places) - rank :])


def runs_along_depth(dots: Sequence[Dot]) -> bool:
    """Say whether neighbours along a dot product stand side by side in the matrices."""
    found = {
        term.offset.coefficient(axis)
        for term in walk([dot.weight for dot in dots])
        if isinstance(term, Load)
        for axis in term.offset.axes
        if axis.name == "depth"
    }
    return found == {1}
