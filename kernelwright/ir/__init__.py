"""What is computed: graphs of MLX operations, their rewrites, regions and costs."""

from kernelwright.ir.capture import capture
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Constant, Graph, Node, TensorType
from kernelwright.ir.interpret import interpret
from kernelwright.ir.ops import OPS, Call, Kind, Op, op_named
from kernelwright.ir.reference import reference
from kernelwright.ir.region import Region

__all__ = [
    "OPS",
    "Call",
    "Constant",
    "Dtype",
    "Graph",
    "Kind",
    "Node",
    "Op",
    "Region",
    "TensorType",
    "capture",
    "interpret",
    "op_named",
    "reference",
]
