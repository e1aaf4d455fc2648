"""Asking MLX whether it would make the types that a graph states, without computing a value."""

import mlx.core as mx

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.graph.verify import verify
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.trace.array import to_dtype
from kernelwright.ir.trace.interpret import constant_array
from kernelwright.ir.trace.replay import replay, to_mlx_dtype


def check_types(graph: Graph) -> None:
    """Verify a graph from elsewhere, and that MLX takes each call and makes what is stated.

    Raises:
        InputError: a rule is broken, or MLX refuses a call or makes another type; the sentence
            names the node.
    """
    verify(graph)
    values = {v: _standing_for(graph.types[v]) for v in graph.inputs}
    values |= {v: constant_array(constant) for v, constant in graph.constants}
    for place, node in enumerate(graph.nodes):
        made = _made(graph, node, [values[v] for v in node.inputs], f"node {place} ({node.op})")
        values.update(zip(node.outputs, made, strict=True))


def _made(graph: Graph, node: Node, arrays: list[mx.array], where: str) -> list[mx.array]:
    stated = [graph.types[v] for v in node.outputs]
    standing = [_standing_for(type_) for type_ in stated]
    if op_named(node.op).kind is Kind.RANDOM:
        # Its replay counts in NumPy, at once.
        return standing
    try:
        made = list(replay(graph, node, arrays))
    except UnsupportedError:
        return standing
    except Exception as e:
        first_line = str(e).partition("\n")[0]
        raise InputError(f"{where} is no call that MLX takes: {first_line}") from e
    found = [TensorType(tuple(array.shape), to_dtype(array.dtype)) for array in made]
    if found != stated:
        types = [", ".join(map(str, each)) for each in (stated, found)]
        raise InputError(f"{where} makes {types[0]}, MLX makes {types[1]} of its operands.")
    return made


def _standing_for(type_: TensorType) -> mx.array:
    """Return an array of a type that takes no memory: nothing evaluates it."""
    return mx.zeros(type_.shape, to_mlx_dtype(type_.dtype))
