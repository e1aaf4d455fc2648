"""The graph: nodes in SSA form over typed values, and what builds and checks it."""

from kernelwright.ir.graph.graph import Attribute, Constant, Graph, Node, TensorType, ValueId

__all__ = ["Attribute", "Constant", "Graph", "Node", "TensorType", "ValueId"]
