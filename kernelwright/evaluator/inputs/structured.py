"""Structure that real data has and random data lacks: causal masks, sorted tokens, skewed experts.

A kernel may be quick only where neighbours differ, or where a mask is half empty in no order. What
is timed has both.
"""

from enum import StrEnum

import numpy as np

from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

_SKEW = 1.5
"""Exponent of the Zipf law of skewed indices: the first of many takes about two in five."""


class Structure(StrEnum):
    """An order among the values of an input, made of values that are its own."""

    NONE = "none"
    SORTED = "sorted"
    """Indices and integers ascend, floats ascend along each row; masks are causal."""
    SKEWED = "skewed"
    """Few of the indices take most places; masks let a prefix through."""
    EQUAL = "equal"
    """All indices are the same; masks let everything through."""


def restructure(
    graph: Graph, inputs: tuple[Array, ...], structure: Structure, seed: int
) -> tuple[Array, ...]:
    """Return a graph's inputs with a structure; where one does not apply they stay as they are."""
    if structure is Structure.NONE:
        return inputs
    random = np.random.default_rng(seed)
    names, domains = graph.input_names(), domains_of(graph)
    return tuple(
        _restructured(array, name, type_, domain, structure, random)
        for array, name, type_, domain in zip(
            inputs, names, graph.input_types, domains, strict=True
        )
    )


def _restructured(
    array: Array,
    name: str,
    type_: TensorType,
    domain: Domain,
    structure: Structure,
    random: np.random.Generator,
) -> Array:
    if array.size < 2:
        return array
    if type_.dtype is Dtype.BOOL:
        return _mask(array.shape, structure, random)
    if type_.dtype.is_integer:
        return array if domain.is_packed else _integers(array, structure, random)
    if type_.dtype.is_float and "mask" in name.lower():
        is_open = _mask(array.shape, structure, random)
        return np.where(is_open, np.zeros((), array.dtype), np.array(-np.inf, array.dtype))
    if structure is Structure.SORTED and type_.dtype.is_float:
        return np.sort(array.astype(np.float32), axis=-1).astype(array.dtype)
    return array


def _mask(shape: tuple[int, ...], structure: Structure, random: np.random.Generator) -> Array:
    columns = shape[-1]
    if structure is Structure.EQUAL:
        return np.ones(shape, np.bool_)
    if structure is Structure.SORTED and len(shape) > 1:
        # The last row sees all columns, as the newest of the queries does.
        return np.tril(np.ones(shape, np.bool_), columns - shape[-2])
    lengths = random.integers(1, columns + 1, (*shape[:-1], 1))
    return np.broadcast_to(np.arange(columns) < lengths, shape).copy()


def _integers(array: Array, structure: Structure, random: np.random.Generator) -> Array:
    flat = np.sort(array.reshape(-1))
    if structure is Structure.SORTED:
        return flat.reshape(array.shape)
    if structure is Structure.EQUAL:
        return np.full_like(array, random.choice(flat))
    values = random.permutation(np.unique(flat))
    ranks = np.minimum(random.zipf(_SKEW, array.shape), len(values)) - 1
    return np.asarray(values[ranks])
