"""What is computed: graphs of MLX operations, their rewrites, regions and costs."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.ir.analysis.reference import reference
    from kernelwright.ir.graph import Constant, Graph, Node, TensorType
    from kernelwright.ir.graph.dtype import Dtype
    from kernelwright.ir.graph.verify import read_graph, verify
    from kernelwright.ir.naming.describe import describe, operation
    from kernelwright.ir.naming.idioms import Idiom, idioms
    from kernelwright.ir.naming.region_name import region_names, shared_name
    from kernelwright.ir.ops import OPS, Call, Kind, Op, op_named
    from kernelwright.ir.passes import canonicalize, gather_attention, standardize
    from kernelwright.ir.passes import expand_means as expand
    from kernelwright.ir.passes.resize import FreeDimension, free_dimensions, resize
    from kernelwright.ir.region import Region
    from kernelwright.ir.trace.capture import CapturedCall, capture, capture_call, capture_labelled
    from kernelwright.ir.trace.interpret import interpret
else:
    offer_lazily(__name__)


__all__ = [
    "OPS",
    "Call",
    "CapturedCall",
    "Constant",
    "Dtype",
    "FreeDimension",
    "Graph",
    "Idiom",
    "Kind",
    "Node",
    "Op",
    "Region",
    "TensorType",
    "canonicalize",
    "capture",
    "capture_call",
    "capture_labelled",
    "describe",
    "expand",
    "free_dimensions",
    "gather_attention",
    "idioms",
    "interpret",
    "op_named",
    "operation",
    "read_graph",
    "reference",
    "region_names",
    "resize",
    "shared_name",
    "standardize",
    "verify",
]
