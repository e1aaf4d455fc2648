"""From a graph back to MLX: every op replayed by the function that MLX's tracer saw."""

import weakref
from collections.abc import Mapping, Sequence

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.ir.graph import Constant, Graph, TensorType, ValueId
from kernelwright.ir.trace.array import to_dtype, to_mlx
from kernelwright.ir.trace.example_call import input_leaves
from kernelwright.ir.trace.replay import replay

_LOADED: dict[int, Mapping[ValueId, mx.array]] = {}


def interpret(graph: Graph, *arrays: object, **keyword_arrays: object) -> list[mx.array]:
    """Replay a graph with MLX's own ops on the default device.

    Arguments are nested as they were for `capture`, and have the types that it saw. On the CPU
    the results equal the captured function's bit for bit.

    Raises:
        InputError: the arrays are not those that the graph takes.
        UnsupportedError: the graph holds an op that cannot be replayed; it is named.
    """
    leaves = input_leaves(arrays, keyword_arrays)
    given = [to_mlx(leaf.array) for leaf in leaves]
    _check(graph, given)
    values: dict[ValueId, mx.array] = dict(zip(graph.inputs, given, strict=True))
    values.update(loaded_constants(graph))
    for node in graph.nodes:
        result = replay(graph, node, [values[v] for v in node.inputs])
        values.update(zip(node.outputs, result, strict=True))
    return [values[v] for v in graph.outputs]


def loaded_constants(graph: Graph) -> Mapping[ValueId, mx.array]:
    """Return the graph's constants in MLX's memory, copied there once in the graph's life."""
    found = _LOADED.get(id(graph))
    if found is None:
        found = {v: constant_array(constant) for v, constant in graph.constants}
        _LOADED[id(graph)] = found
        weakref.finalize(graph, _LOADED.pop, id(graph), None)
    return found


def constant_array(constant: Constant) -> mx.array:
    """Return a constant as an MLX array of the same bits."""
    return to_mlx(constant.array)


def _check(graph: Graph, arrays: Sequence[mx.array]) -> None:
    if len(arrays) != len(graph.inputs):
        raise InputError(
            f"the graph takes {len(graph.inputs)} arrays ({', '.join(graph.input_names())}), "
            f"found {len(arrays)}; pass them as they were captured."
        )
    for name, type_, array in zip(graph.input_names(), graph.input_types, arrays, strict=True):
        found = TensorType(tuple(array.shape), to_dtype(array.dtype))
        if found != type_:
            raise InputError(f"{name} was captured as {type_}, found {found}; capture it again.")
