"""Seeing a mean in a sum that is scaled by its count, however it was written."""

from collections.abc import Sequence

import numpy as np

from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, mean_divisor
from kernelwright.ir.passes.view import broadcast


def recognise_means(graph: Graph) -> Graph:
    """Turn `sum * (1/N)` and `sum / N` into `mean`, which knows no N.

    `form` remembers which of the two it was, and `ddof` what N lacks, so that `expand_means`
    gives back the same bits. A constant must be exactly what MLX computes for the count.
    """
    return rewrite(graph, RULES)


def expand_means(graph: Graph) -> Graph:
    """Write every `mean` as a sum and the constant of its count again."""
    return rewrite(graph, [_expand])


def scale_constant(divisor: int, form: str, dtype: Dtype) -> Constant:
    """Return what MLX multiplies a sum by, or divides it by, for its mean."""
    value = float(divisor) if form == "divide" else 1.0 / divisor
    return Constant.of(np.array(value), dtype)


def _mean(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    form = {"multiply": "multiply", "divide": "divide"}.get(node.op)
    if form is None or not call.outputs[0].dtype.is_float:
        return None
    total = builder.made_by(node.inputs[0], "sum")
    scale = _scalar(builder, node.inputs[1])
    if total is None or scale is None:
        return None
    axes = dict(total.attributes)["axes"]
    source = builder.types[total.inputs[0]]
    for ddof in (0, 1):
        attributes = {"axes": axes, "ddof": ddof, "form": form}
        divisor = mean_divisor(Call(attributes, (source,), call.outputs))
        # A divisor of one says nothing: any sum is divided by it.
        if divisor > 1 and scale_constant(divisor, form, scale.type.dtype).data == scale.data:
            return builder.add("mean", total.inputs, call.outputs, attributes.items())
    return None


def _scalar(builder: GraphBuilder, value: ValueId) -> Constant | None:
    node = builder.made_by(value, "broadcast")
    constant = builder.constant_at(node.inputs[0] if node else value)
    return constant if constant is not None and constant.type.size == 1 else None


def _expand(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "mean":
        return None
    output = call.outputs[0]
    form = call.text("form")
    axes = [("axes", call.attributes["axes"])]
    total = builder.add("sum", node.inputs, [TensorType(output.shape, output.dtype)], axes)[0]
    scale = builder.constant(scale_constant(mean_divisor(call), form, output.dtype))
    return builder.add(form, [total, broadcast(builder, scale, output.shape)], [output])


RULES: tuple[Rule, ...] = (_mean,)
