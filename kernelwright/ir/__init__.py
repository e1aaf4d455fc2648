"""What is computed: graphs of MLX operations, their rewrites, regions and costs."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.ir.capture import CapturedCall, capture, capture_call, capture_labelled
    from kernelwright.ir.cost import Cost, Profile, best_traffic, cost, mlx_kernels
    from kernelwright.ir.describe import describe, operation
    from kernelwright.ir.dtype import Dtype
    from kernelwright.ir.family import Family, Pattern, classify
    from kernelwright.ir.graph import Constant, Graph, Node, TensorType
    from kernelwright.ir.idioms import Idiom, idioms
    from kernelwright.ir.interpret import interpret
    from kernelwright.ir.legality import Verdict, legality
    from kernelwright.ir.ops import OPS, Call, Kind, Op, op_named
    from kernelwright.ir.origin.region_name import region_names, shared_name
    from kernelwright.ir.partition import partition
    from kernelwright.ir.passes import canonicalize, gather_attention, standardize
    from kernelwright.ir.passes import expand_means as expand
    from kernelwright.ir.reference import reference
    from kernelwright.ir.region import Region
    from kernelwright.ir.resize import FreeDimension, free_dimensions, resize
    from kernelwright.ir.traffic import (
        Traffic,
        compiled_traffic,
        eager_traffic,
        fast_traffic,
        planned_traffic,
    )
    from kernelwright.ir.verify import verify
else:
    offer_lazily(__name__)


__all__ = [
    "OPS",
    "Call",
    "CapturedCall",
    "Constant",
    "Cost",
    "Dtype",
    "Family",
    "FreeDimension",
    "Graph",
    "Idiom",
    "Kind",
    "Node",
    "Op",
    "Pattern",
    "Profile",
    "Region",
    "TensorType",
    "Traffic",
    "Verdict",
    "best_traffic",
    "canonicalize",
    "capture",
    "capture_call",
    "capture_labelled",
    "classify",
    "compiled_traffic",
    "cost",
    "describe",
    "eager_traffic",
    "expand",
    "fast_traffic",
    "free_dimensions",
    "gather_attention",
    "idioms",
    "interpret",
    "legality",
    "mlx_kernels",
    "op_named",
    "operation",
    "partition",
    "planned_traffic",
    "reference",
    "region_names",
    "resize",
    "shared_name",
    "standardize",
    "verify",
]
