"""Products of many rows with packed weights, which MLX computes faster once they are unpacked."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernelwright.digest import digest
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.ir.passes import split_views

LEAST_ROWS, LEAST_WEIGHTS = {"cuda": 512}, 1 << 24
"""Rows and weights from which on unpacked weights pay, rows by device.

MLX's CUDA backend (0.32.4) on an H200, 4 bits in groups of 64, float16, in us: `quantized_matmul`,
then our dequantization with MLX's own product, in turns (`suite run --set unlisted`). Of 512 rows,
4096 with 14336: 464, 146; 4096 with 4096: 136, 42; 2048 with 8192: 113, 42; 8192 with 2048: 138,
57. 2048 with 2048 loses, 32 to 48, and so do 64 rows of 2048 with 8192, by a plain clock: 26, 53.
"""
TRIED_ROWS, TRIED_WEIGHTS = 128, 1 << 20
"""The same where the machine itself is asked, which may be any. Below them unpacking is most of the
time: 64 rows lose by half on an H200."""
_PACKED = frozenset({"quantized_matmul", "gather_qmm"})
MOST_BYTES = 1 << 30
"""Of unpacked weights, which take memory while the product runs."""
UNPACKED = digest("mx.dequantize and a product")
"""The candidate by whose trial a machine's store knows what came of it."""
UNPACKED_BY_KERNEL = digest("a kernel that unpacks and a product")
"""The same where a kernel unpacks the weights."""


@dataclass(frozen=True)
class PackedProduct:
    """A product of rows with packed weights, as far as its time depends on it."""

    rows: int
    packed: tuple[int, ...]
    """The shape of the packed weights."""
    columns: int
    dtype: str
    group_size: int
    bits: int

    @property
    def weights(self) -> int:
        """How many weights there are."""
        return self.matrix_rows * self.columns

    @property
    def nbytes(self) -> int:
        """Of its weights once they are unpacked."""
        return self.weights * Dtype(self.dtype).itemsize

    @property
    def matrix_rows(self) -> int:
        """The rows of all its matrices: those of experts stand below each other."""
        return prod(self.packed[:-1])

    @property
    def unpacking(self) -> Graph:
        """The task of unpacking its weights, as rows of one matrix."""
        rows, dtype = self.matrix_rows, Dtype(self.dtype)
        packed = TensorType((rows, self.packed[-1]), Dtype.UINT32)
        scales = TensorType((rows, self.columns // self.group_size), dtype)
        made = TensorType((rows, self.columns), dtype)
        attributes = (("group_size", self.group_size), ("bits", self.bits))
        return Graph(
            types=(packed, scales, scales, made),
            inputs=(0, 1, 2),
            constants=(),
            nodes=(Node("dequantize", (0, 1, 2), (3,), attributes),),
            outputs=(3,),
        )

    @property
    def bucket(self) -> int:
        """The largest power of two of its rows: what is faster for those is so for some more."""
        return 1 << max(self.rows, 1).bit_length() - 1

    @property
    def trial_id(self) -> str:
        """The task under which a machine's store has its trial."""
        parts = (self.bucket, self.packed, self.columns, self.dtype, self.group_size, self.bits)
        return digest("quantized product", *map(str, parts))


def unpack_products(graph: Graph, device: str) -> Graph:
    """Return the graph with the packed weights of products unpacked where that is known to pay.

    The unpacking is a region of its own, which a kernel does in half of MLX's time; the product
    of floats is MLX's. Weights are rounded to their scales' dtype, as `mx.dequantize` rounds them.
    The graph is returned as it is where the device has no product for which this pays.

    Args:
        graph: in normal form.
        device: the name of the device it runs on.
    """
    least = LEAST_ROWS.get(device)
    return graph if least is None else _unpack(graph, least, LEAST_WEIGHTS)[0]


def unpack_untried(graph: Graph) -> tuple[Graph, frozenset[PackedProduct]]:
    """Return the graph with products unpacked for which that only may pay, and these products.

    A machine compares both before it uses either.
    """
    return _unpack(graph, TRIED_ROWS, TRIED_WEIGHTS)


def packed_products(graph: Graph) -> frozenset[PackedProduct]:
    """List the products with packed weights that MLX could unpack, experts' among them."""
    found = set[PackedProduct]()
    for node in graph.nodes:
        call = Call.of(graph, node)
        if _has_unpackable_weights(node, call):
            found.add(_product(call))
    return frozenset(found)


def _unpack(graph: Graph, rows: int, weights: int) -> tuple[Graph, frozenset[PackedProduct]]:
    found: set[PackedProduct] = set()

    def unpacked(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
        if not _is_unpackable(node, call):
            return None
        product = _product(call)
        if product.rows < rows or product.weights < weights:
            return None
        found.add(product)
        return (_unpacked(builder, node, call),)

    rewritten = rewrite(graph, (unpacked,))
    return (split_views(rewritten) if found else graph), frozenset(found)


def _product(call: Call) -> PackedProduct:
    x, packed = call.inputs[:2]
    return PackedProduct(
        rows=x.size // x.shape[-1],
        packed=packed.shape,
        columns=x.shape[-1],
        dtype=x.dtype.value,
        group_size=call.integer("group_size"),
        bits=call.integer("bits"),
    )


def _is_unpackable(node: Node, call: Call) -> bool:
    return (
        node.op == "quantized_matmul"
        and _has_unpackable_weights(node, call)
        and len(call.inputs[1].shape) == 2
    )


def _has_unpackable_weights(node: Node, call: Call) -> bool:
    if node.op not in _PACKED or call.text("mode") != "affine" or not call.flag("transpose"):
        return False
    x, _, scales = call.inputs[:3]
    return x.dtype is scales.dtype is call.outputs[0].dtype


def _unpacked(builder: GraphBuilder, node: Node, call: Call) -> ValueId:
    x, packed, scales, biases = node.inputs
    group_size, bits = call.integer("group_size"), call.integer("bits")
    rows, columns = call.inputs[1].shape[0], call.inputs[0].shape[-1]
    (weights,) = builder.add(
        "dequantize",
        (packed, scales, biases),
        [TensorType((rows, columns), call.inputs[2].dtype)],
        (("group_size", group_size), ("bits", bits)),
    )
    across = builder.apply("transpose", weights, axes=(1, 0))
    (product,) = builder.add("matmul", (x, across), call.outputs)
    return product
