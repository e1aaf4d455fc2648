"""Products of quantized rows with vectors as terms: what a lane reads, and where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.metal.family.matvec import (
    PRODUCTS,
    Product,
    packed_inputs,
    products,
    unfit,
)
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store
from kernelwright.metal.kernel_ir.index import Axis, Index, flatten, unflatten
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.term.build import REDUCED_AXIS, Builder
from kernelwright.metal.lower.term.chosen import chosen_pair
from kernelwright.metal.lower.term.view import Coordinates

_SCALES = {
    "mxfp4": ScalarOp.POWER_OF_TWO,
    "mxfp8": ScalarOp.POWER_OF_TWO,
    "nvfp4": ScalarOp.EIGHT_BIT_FLOAT,
}
"""What the byte of a group's scale means, where it is no number of the vectors' own dtype."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One sum of products along a vector, and what a lane reads for it from `tile` on."""

    total: Expr
    """What the kernel keeps in a variable."""
    value: Expr
    """An element of the vector."""
    words: Load
    """The first of the packed words that the lane takes at a time."""
    scale: Expr
    bias: Expr | None
    """None where the digits are floats."""
    bits: int

    @property
    def read(self) -> tuple[Expr, ...]:
        """What stands in memory."""
        stored = (self.value, self.words, self.scale)
        return stored if self.bias is None else (*stored, self.bias)


@dataclass
class Products(Builder):
    """Builds what follows matrix products, each element of a product being a dot product.

    A `token` is a vector; `row` is a row of the output, which several rows of a matrix may make.
    """

    vectors: int = 1
    dots: dict[tuple[ValueId, Index], Dot] = field(default_factory=dict)

    @property
    def token(self) -> Index:
        """Which vector an element is made of."""
        return Index.of(Axis("token", self.vectors))

    def _make(self, value: ValueId, places: Coordinates) -> Expr:
        maker = self.graph.producer_of.get(value)
        node = None if maker is None else self.graph.nodes[maker]
        if node is None or node.op not in PRODUCTS:
            return super()._make(value, places)
        return self._dot(node, places).total

    def _dot(self, node: Node, places: Coordinates) -> Dot:
        *lead, row = places
        shape = self.graph.types[node.outputs[0]].shape
        if flatten(lead, shape[:-1]) != self.token or any(a.name != "row" for a in row.axes):
            raise UnsupportedError(
                f"{node.op} is read across its vectors; split the region behind it."
            )
        key = (node.outputs[0], row)
        if key not in self.dots:
            self.dots[key] = self._new_dot(node, lead, row)
        return self.dots[key]

    def _new_dot(self, node: Node, lead: Sequence[Index], row: Index) -> Dot:
        call = Call.of(self.graph, node)
        x, (packed, scales, *biases) = node.inputs[0], packed_inputs(node, call)
        product = Product.of(call, node.op)
        source: Coordinates = tuple(lead)
        matrix: Coordinates = ()
        if product.is_gathered:
            rows, matrix = chosen_pair(self, node, tuple(lead[:-1]))
            source = (*rows, lead[-1])
        column = Index.of(Axis(REDUCED_AXIS, product.columns))
        tile = Index.of(Axis("tile", product.columns))
        digits, words = product.run
        whole = min(digits, 32 // product.bits) if 32 % product.bits == 0 else digits
        first = tile // whole * (words * whole // digits)
        group = (*matrix, row, tile // product.group_size)
        read = self.element(packed, (*matrix, row, first))
        assert isinstance(read, Load)
        axes = (self.token + row).axes
        total = self.terms.held(f"total_{len(self.dots)}", Dtype.FLOAT32, axes)
        value = self.element(x, (*source, column))
        scale = self.element(scales, group)
        if product.mode in _SCALES:
            scale = self.apply(_SCALES[product.mode], Dtype.FLOAT32, "scale", scale)
        bias = self.element(biases[0], group) if biases else None
        return Dot(total, value, read, scale, bias, product.bits)


def product_stores(graph: Graph, signature: Signature) -> tuple[list[Store], list[Dot], Product]:
    """Return what the outputs are made of, and the dot products below them.

    Raises:
        UnsupportedError: an output is not made of rows of the matrices, vector by vector.
    """
    found = products(graph)
    if reason := unfit(graph) if found else "it multiplies with no packed matrix":
        raise UnsupportedError(f"{reason}; leave it to MLX.")
    node = found[0]
    product = Product.of(Call.of(graph, node), node.op)
    builder = Products(graph, signature.arrays, vectors=product.vectors)
    rows = graph.output_types[0].size // product.vectors
    place = builder.token * rows + Index.of(Axis("row", rows))
    stores = [
        Store(name, place, builder.element(value, unflatten(place, type_.shape)), type_.dtype)
        for value, (name, type_) in zip(graph.outputs, signature.outputs, strict=True)
    ]
    return stores, list(builder.dots.values()), product
