"""What is computed: graphs of MLX operations, their rewrites, regions and costs."""

from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Constant, Graph, Node, TensorType
from kernelwright.ir.region import Region

__all__ = ["Constant", "Dtype", "Graph", "Node", "Region", "TensorType"]
