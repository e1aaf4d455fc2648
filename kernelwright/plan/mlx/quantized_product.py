"""Products of many rows with packed weights, which MLX computes faster once they are unpacked."""

from collections.abc import Sequence

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.ops import Call
from kernelwright.ir.passes import split_views
from kernelwright.ir.passes.resize import resize

LEAST_ROWS, LEAST_WEIGHTS = {"cuda": 512}, 1 << 24
"""Rows and weights from which on unpacked weights pay, rows by device.

MLX's CUDA backend (0.32.4) on an H200, 4 bits in groups of 64, float16, in us: `quantized_matmul`,
then our dequantization with MLX's own product, in turns (`suite run --set unlisted`). Of 512 rows,
4096 with 14336: 464, 146; 4096 with 4096: 136, 42; 2048 with 8192: 113, 42; 8192 with 2048: 138,
57. 2048 with 2048 loses, 32 to 48, and so do 64 rows of 2048 with 8192, by a plain clock: 26, 53.
"""
_TRIED_ROWS, _TRIED_WEIGHTS = 128, 1 << 21
"""The same where the machine itself is asked: what may pay on another chip, or for more rows."""


def unpack_products(graph: Graph, device: str, *, is_tried: bool = False) -> Graph:
    """Return the graph with the packed weights of products of many rows unpacked before them.

    The unpacking is a region of its own, which a kernel does in half of MLX's time; the product
    of floats is MLX's. Weights are rounded to their scales' dtype, as `mx.dequantize` rounds them.
    The graph is returned as it is where the device has no product for which this pays.

    Args:
        graph: in normal form.
        device: the name of the device it runs on.
        is_tried: True where it will be timed on the machine before it is used, so that products
            for which it only may pay are unpacked as well.
    """
    least = LEAST_ROWS.get(device)
    if least is None:
        return graph
    rows, weights = (_TRIED_ROWS, _TRIED_WEIGHTS) if is_tried else (least, LEAST_WEIGHTS)

    def unpacked(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
        if (
            not _is_unpackable(node, call)
            or call.inputs[0].size // call.inputs[0].shape[-1] < rows
            or call.inputs[0].shape[-1] * call.inputs[1].shape[0] < weights
        ):
            return None
        return (_unpacked(builder, node, call),)

    rewritten = rewrite(graph, (unpacked,))
    return graph if rewritten == graph else split_views(rewritten)


def like_products(task: Graph) -> Graph:
    """Return a product of many rows for the largest power of two of them that it has.

    What is faster for as many rows is so for somewhat more: prompts have lengths of their own.
    """
    rows = task.input_types[0].shape[-2]
    try:
        return resize(task, {(0, len(task.input_types[0].shape) - 2): 1 << rows.bit_length() - 1})
    except KernelwrightError:
        return task


def _is_unpackable(node: Node, call: Call) -> bool:
    if node.op != "quantized_matmul" or call.text("mode") != "affine" or not call.flag("transpose"):
        return False
    x, packed, scales = call.inputs[:3]
    return len(packed.shape) == 2 and x.dtype is scales.dtype is call.outputs[0].dtype


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
