"""The ideal answer of a graph: float64 arithmetic by NumPy and SciPy, integers exact."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, exact_dtype, op_named
from kernelwright.ir.ops.op import Array, Op
from kernelwright.ir.ops.undefined import Clamp, clamped


@dataclass(frozen=True, slots=True)
class Made:
    """What a node makes of floats, before anybody rounds it."""

    op: Op
    call: Call
    read: tuple[Array, ...]
    values: Array
    dtype: Dtype
    """What the values have in MLX."""
    value: ValueId
    """Names them in the graph."""


Spread = Callable[[Callable[..., Array], Sequence[Array]], Array]
"""Applies a function that maps equal-shaped arrays element by element."""


def at_once(function: Callable[..., Array], arrays: Sequence[Array]) -> Array:
    """Apply a function to whole arrays, on one core."""
    return function(*arrays)


def reference(
    graph: Graph,
    arrays: Sequence[NDArray[np.generic]],
    *,
    rounded: Callable[[Made], Array] | None = None,
    spread: Spread = at_once,
    clamp: Clamp | None = None,
) -> list[Array]:
    """Evaluate a graph as if floating point had no rounding (to float64).

    Inputs are taken at their exact values. A cast between float dtypes changes nothing: MLX
    rounds every intermediate to its dtype, the ideal answer rounds none. Where rounding is the
    meaning, it happens: casts to integers truncate, `round`, `floor` and comparisons see the
    float64 value, `view` sees the bits of the stored dtype. Integer arithmetic wraps as in MLX.
    `rounded`, where it is given, rounds whatever a node makes of floats, to show what that does.
    `spread` may divide elementwise work among cores. `clamp` says which element stands for
    what lies outside of an array, where MLX reads whatever is there, or of the integer that it
    becomes.

    Raises:
        IndexError: an index is out of range, without `clamp`.
        InputError: the arrays are not those that the graph takes.
        UnsupportedError: an op has no meaning in the op table, or none for complex numbers; it is
            named.
    """
    if len(arrays) != len(graph.inputs):
        raise InputError(f"the graph takes {len(graph.inputs)} arrays, found {len(arrays)}.")
    values: dict[ValueId, Array] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        if tuple(array.shape) != graph.types[value].shape:
            raise InputError(f"expected {graph.types[value]}, found the shape {array.shape}.")
        values[value] = _exact(array, graph.types[value].dtype, spread)
    for value, constant in graph.constants:
        values[value] = constant.array.astype(exact_dtype(constant.type.dtype))
    last_use = {v: i for i, node in enumerate(graph.nodes) for v in node.inputs}
    kept = set(graph.outputs)
    with np.errstate(all="ignore"):
        for index, node in enumerate(graph.nodes):
            read = [values[v] for v in node.inputs]
            made = _evaluate(graph, node, read, spread, clamp)
            if rounded is not None:
                op, call = op_named(node.op), Call.of(graph, node)
                made = {
                    v: rounded(Made(op, call, tuple(read), a, graph.types[v].dtype, v))
                    if a.dtype == np.float64
                    else a
                    for v, a in made.items()
                }
            values.update(made)
            for value in set(node.inputs):
                if last_use[value] == index and value not in kept:
                    del values[value]
    return [values[v] for v in graph.outputs]


def _exact(array: NDArray[np.generic], dtype: Dtype, spread: Spread) -> Array:
    return spread(lambda part: part.astype(exact_dtype(dtype)), [cast("Array", array)])


def _evaluate(
    graph: Graph, node: Node, arrays: list[Array], spread: Spread, clamp: Clamp | None
) -> dict[ValueId, Array]:
    op, call = op_named(node.op), Call.of(graph, node)
    if op.meaning is None:
        raise UnsupportedError(f"the op {node.op!r} has no float64 meaning; leave it to MLX.")
    meaning = partial(op.meaning, call)
    if clamp is not None:
        arrays = clamped(node.op, call, arrays, clamp)
    try:
        if op.kind is Kind.ELEMENTWISE:
            result: Array | tuple[Array, ...] = spread(
                cast("Callable[..., Array]", meaning), arrays
            )
        else:
            result = meaning(*arrays)
    except TypeError as e:
        read = " and ".join(str(t.dtype) for t in call.inputs)
        raise UnsupportedError(
            f"the op {node.op!r} has no meaning for {read}; leave it to MLX."
        ) from e
    outputs = result if isinstance(result, tuple) else (result,)
    return {
        value: np.asarray(array).astype(exact_dtype(graph.types[value].dtype), copy=False)
        for value, array in zip(node.outputs, outputs, strict=True)
    }
