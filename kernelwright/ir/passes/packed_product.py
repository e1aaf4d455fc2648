"""Gathering products with weights that are unpacked for them, for which MLX has one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Attribute, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import same
from kernelwright.ir.passes.view import broadcast


@dataclass(frozen=True, slots=True)
class _Packed:
    """Rows of packed weights, as `mx.quantized_matmul` takes them."""

    operands: tuple[ValueId, ...]
    attributes: tuple[tuple[str, Attribute], ...]


def _product(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Multiply with the packed weights, which then are not rounded to their dtype first."""
    if node.op != "matmul" and not _is_plain_sum(node):
        return None
    x, weights, *added = node.inputs
    packed = _packed(builder, weights)
    if packed is None or builder.types[x].dtype is not builder.types[weights].dtype:
        return None
    type_ = TensorType(call.outputs[0].shape, call.outputs[0].dtype)
    operands = (x, *packed.operands)
    (made,) = builder.add("quantized_matmul", operands, [type_], packed.attributes)
    return [same(builder, "add", made, broadcast(builder, v, type_.shape)) for v in added] or [made]


def _is_plain_sum(node: Node) -> bool:
    return node.op == "addmm" and (node.attribute("alpha"), node.attribute("beta")) == (1.0, 1.0)


def _packed(builder: GraphBuilder, weights: ValueId) -> _Packed | None:
    turned = builder.made_by(weights, "transpose")
    unpacked = None if turned is None else builder.made_by(turned.inputs[0], "dequantize")
    if unpacked is None or len(builder.types[weights].shape) != 2:
        return None
    attributes = (*unpacked.attributes, ("mode", "affine"), ("transpose", True))
    return _Packed(unpacked.inputs, attributes)


RULES: tuple[Rule, ...] = (_product,)
