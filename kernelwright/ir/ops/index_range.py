"""Which indices point into an array, for each operand of an op that holds some."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.ir.ops.op import Call


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The least index and the greatest one; `highest` has one for each element, or one for all."""

    lowest: int
    highest: tuple[int, ...]


Ranges = Mapping[int, IndexRange]


def of_gathered(call: Call) -> Ranges:
    """Whole windows lie within the array; what is negative counts from the end."""
    return _of_axes(call, call.integers("slice_sizes"))


def of_scattered(call: Call) -> Ranges:
    """Whole updates lie within the array; what is negative counts from the end."""
    return _of_axes(call, call.inputs[-1].shape[-len(call.inputs[0].shape) :])


def _of_axes(call: Call, sizes: tuple[int, ...]) -> Ranges:
    shape = call.inputs[0].shape
    pairs = enumerate(call.integers("axes"), 1)
    return {i: IndexRange(-shape[axis], (shape[axis] - sizes[axis],)) for i, axis in pairs}


def of_axis(call: Call) -> Ranges:
    """Elements lie along one axis; what is negative counts from its end."""
    size = call.inputs[0].shape[call.integer("axis")]
    return {1: IndexRange(-size, (size - 1,))}


def of_window(call: Call) -> Ranges:
    """Let all of a window lie within the array, wherever it starts."""
    return _of_starts(call, call.integers("shape"))


def of_updated_window(call: Call) -> Ranges:
    """Let all of an update lie within the array, wherever it starts."""
    return _of_starts(call, call.inputs[1].shape)


def _of_starts(call: Call, window: tuple[int, ...]) -> Ranges:
    shape = call.inputs[0].shape
    highest = tuple(shape[axis] - window[axis] for axis in call.integers("axes"))
    return {len(call.inputs) - 1: IndexRange(0, highest)}


def of_matrices(call: Call) -> Ranges:
    """Return how many matrices either side of a product has to choose from."""
    counts = (math.prod(type_.shape[:-2]) for type_ in call.inputs[:2])
    first = len(call.inputs) - 2
    return {first + side: IndexRange(0, (count - 1,)) for side, count in enumerate(counts)}
