"""Inputs of regions, drawn on the device."""

import mlx.core as mx

from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype


def random_inputs(graph: Graph, seed: int) -> list[mx.array]:
    """Draw inputs of a region; what it takes a root or a logarithm of is positive."""
    drawn = zip(graph.input_types, domains_of(graph), strict=True)
    return [
        mx.abs(array) + 0.01 if domain.is_positive and type_.dtype.is_float else array
        for place, (type_, domain) in enumerate(drawn)
        for array in [random_input(type_, seed + place)]
    ]


def random_input(type_: TensorType, seed: int) -> mx.array:
    """Draw one input of a region."""
    key = mx.random.key(seed)
    if type_.dtype.is_float:
        return mx.random.normal(type_.shape, scale=0.5, key=key).astype(mlx_dtype(type_))
    # Small integers are valid indices, digits and flags alike.
    return mx.random.randint(0, 2, type_.shape, key=key).astype(mlx_dtype(type_))


def mlx_dtype(type_: TensorType) -> mx.Dtype:
    """Return MLX's dtype of a type."""
    found: mx.Dtype = getattr(mx, "bool_" if type_.dtype is Dtype.BOOL else type_.dtype.value)
    return found
