"""Quantized matrices times few vectors: products that are bound by reading the matrix once."""

import math
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.weight import FLOAT_MODES
from kernelwright.metal.family.component import ragged_parts
from kernelwright.metal.family.contraction import MAX_PAIRS

PRODUCTS = frozenset({"quantized_matmul", "gather_qmm"})
"""Contractions that a kernel of this family computes where few vectors meet the matrix."""
KEPT_VALUES = 64
"""Values of its vectors that a lane keeps in registers while it walks along the matrix."""
_BITS = frozenset({2, 3, 4, 5, 6, 8})


@dataclass(frozen=True, slots=True)
class Product:
    """The sizes of one product of quantized rows with vectors."""

    vectors: int
    """Vectors, or pairs of a vector and a matrix."""
    columns: int
    """Elements of a vector."""
    bits: int
    group_size: int
    mode: str
    """MLX's name of the format: `affine`, or one whose digits are floats."""
    is_gathered: bool
    """True where each vector has a matrix of its own choice."""

    @classmethod
    def of(cls, call: Call, op: str) -> "Product":
        """Read them from the op's operands."""
        columns = call.inputs[0].shape[-1]
        is_gathered = op == "gather_qmm"
        vectors = call.inputs[-1].size if is_gathered else call.inputs[0].size // columns
        bits, group_size = call.integer("bits"), call.integer("group_size")
        return cls(vectors, columns, bits, group_size, call.text("mode"), is_gathered)

    @property
    def run(self) -> tuple[int, int]:
        """Digits that fill whole words, at least eight, and those words."""
        words = max(math.lcm(self.bits, 32) // 32, self.bits * 8 // 32)
        return words * 32 // self.bits, words


def packed_inputs(node: Node, call: Call) -> tuple[ValueId, ...]:
    """Return the packed words of a product, their scales and, where they have any, their biases."""
    return node.inputs[1 : 4 if call.text("mode") == "affine" else 3]


def products(graph: Graph) -> list[Node]:
    """Return a graph's matrix products."""
    return [node for node in graph.nodes if op_named(node.op).kind is Kind.CONTRACTION]


def unfit(graph: Graph) -> str:
    """Say why a graph with matrix products is not one kernel of this family, or nothing."""
    found = [(node, Call.of(graph, node)) for node in products(graph)]
    for node, call in found:
        if reason := _unfit_product(graph, node, call):
            return reason
    sizes = {(p.vectors, p.is_gathered) for p in (Product.of(c, n.op) for n, c in found)}
    if len(sizes) != 1:
        return "its matrix products take different numbers of vectors"
    vectors = sizes.pop()[0]
    reason = _mixes(graph, vectors)
    if not reason and len({t.size for t in graph.output_types}) != 1:
        parts = ragged_parts(graph)
        if not parts or any(unfit(part.bare()) for part in parts):
            return "its outputs differ in size"
    return reason


def _unfit_product(graph: Graph, node: Node, call: Call) -> str:
    if node.op not in PRODUCTS:
        return f"{node.op} is a contraction op"
    mode, layout = call.text("mode"), (call.integer("bits"), call.integer("group_size"))
    if layout != FLOAT_MODES.get(mode) and (mode != "affine" or layout[0] not in _BITS):
        return f"{layout[0]} bits of mode {mode} are left to MLX"
    packed = call.inputs[1].shape
    if not call.flag("transpose") or len(packed) != (3 if node.op == "gather_qmm" else 2):
        return f"{node.op} of {packed} does not run along the rows of one matrix"
    if any(v not in graph.inputs for v in packed_inputs(node, call)):
        return "the packed matrix is computed"
    product = Product.of(call, node.op)
    if product.is_gathered:
        if call.inputs[0].shape[-2] != 1 or product.vectors > MAX_PAIRS:
            return f"{node.op} of {product.vectors} vectors reads more than one kernel should"
    elif product.vectors * product.run[0] > KEPT_VALUES:
        return f"{product.vectors} vectors are a matrix, whose product MLX's own kernel wins"
    return ""


def _mixes(graph: Graph, vectors: int) -> str:
    """Name what stands around the products and keeps an element from being made of its own."""
    made: set[ValueId] = set()
    before = _before_products(graph)
    for node in graph.nodes:
        kind = op_named(node.op).kind
        if kind is Kind.CONTRACTION:
            if any(v in made for v in node.inputs):
                return f"{node.op} of another product needs all of it"
            made.update(node.outputs)
        elif kind not in (Kind.ELEMENTWISE, Kind.VIEW) and node.op != "arange":
            return f"{node.op} and a matrix product are not one kernel"
        elif any(v in made for v in node.inputs):
            made.update(node.outputs)
            if kind is Kind.VIEW and not _keeps_vectors(graph, node, vectors):
                return f"{node.op} moves what a matrix product made"
        elif kind is Kind.ELEMENTWISE and before.intersection(node.outputs):
            # Every simdgroup would compute the whole vector again.
            return f"{node.op} stands before a matrix product, whose rows would all repeat it"
    if any(v not in made for v in graph.outputs):
        return "an output is not made of the matrix products"
    return ""


def _before_products(graph: Graph) -> set[ValueId]:
    """Return what the products read, at whatever distance."""
    before: set[ValueId] = set()
    for node in reversed(graph.nodes):
        if op_named(node.op).kind is Kind.CONTRACTION or before.intersection(node.outputs):
            before.update(node.inputs)
    return before


def _keeps_vectors(graph: Graph, node: Node, vectors: int) -> bool:
    """Say whether a view takes elements of a product's vector to elements of the same vector."""
    before, after = graph.types[node.inputs[0]].shape, graph.types[node.outputs[0]].shape
    if node.op == "slice":
        *rest, _ = slices(Call.of(graph, node))
        return vectors == 1 or rest == [slice(0, n, 1) for n in before[:-1]]
    if node.op == "transpose":
        return vectors == 1
    return node.op == "reshape" and _splits(before, vectors) and _splits(after, vectors)


def _splits(shape: tuple[int, ...], vectors: int) -> bool:
    return any(math.prod(shape[:i]) == vectors for i in range(len(shape) + 1))
