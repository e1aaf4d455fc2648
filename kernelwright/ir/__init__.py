"""What is computed: graphs of MLX operations, their rewrites, regions and costs."""

from kernelwright.ir.capture import capture
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.family import Family, Pattern, classify
from kernelwright.ir.graph import Constant, Graph, Node, TensorType
from kernelwright.ir.interpret import interpret
from kernelwright.ir.legality import Verdict, legality
from kernelwright.ir.ops import OPS, Call, Kind, Op, op_named
from kernelwright.ir.partition import partition
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.passes import expand_means as expand
from kernelwright.ir.reference import reference
from kernelwright.ir.region import Region

__all__ = [
    "OPS",
    "Call",
    "Constant",
    "Dtype",
    "Family",
    "Graph",
    "Kind",
    "Node",
    "Op",
    "Pattern",
    "Region",
    "TensorType",
    "Verdict",
    "canonicalize",
    "capture",
    "classify",
    "expand",
    "interpret",
    "legality",
    "op_named",
    "partition",
    "reference",
]
