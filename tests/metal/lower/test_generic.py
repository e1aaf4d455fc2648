"""A program serves every size that it binds by name, and no size that its text holds."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, TensorType, canonicalize, capture, reference
from kernelwright.ir.passes.resize import resize
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import Elementwise, Rowwise, Schedule

Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]


def graph_of(function: Callable[..., mx.array], *shapes: tuple[int, ...]) -> Graph:
    return canonicalize(capture(function, *(mx.zeros(shape) for shape in shapes)))


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, -1)


SHAPES: list[tuple[Callable[..., mx.array], Schedule, list[tuple[int, ...]], list[object]]] = [
    (softmax, Rowwise(), [(8, 64)], ["rows", 64]),
    (softmax, Rowwise(), [(2, 3, 64)], ["size_0", "size_1", 64]),
    (mx.multiply, Elementwise(4), [(6, 64), (64,)], ["rows", 64]),
    (mx.tanh, Elementwise(4), [(6, 64)], ["rows", 64]),
    (mx.tanh, Elementwise(1), [(6, 64)], ["size_0", "size_1"]),
    (mx.tanh, Elementwise(4), [(5, 63)], [5, 63]),
    (mx.add, Elementwise(1), [(2, 3, 64), (2, 1, 64)], ["rows", 3, 64]),
]


@pytest.mark.parametrize(("function", "schedule", "shapes", "expected"), SHAPES)
def test_dimensions_outside_the_text_are_open(
    function: Callable[..., mx.array],
    schedule: Schedule,
    shapes: list[tuple[int, ...]],
    expected: list[object],
) -> None:
    program = lower(graph_of(function, *shapes), schedule)
    assert list(program.inputs[0].shape) == expected


@pytest.mark.parametrize("rows", [1, 3, 37])
def test_one_program_serves_every_row_count(rows: int, run: Run, draw: Draw) -> None:
    graph = graph_of(softmax, (8, 64))
    program = lower(graph, Rowwise(vector=2))
    other = resize(graph, {(0, 0): rows})
    arrays = [draw(other.input_types[0], rows)]
    (found,) = run(program, other, arrays)
    (exact,) = reference(other, arrays)
    assert np.allclose(found.astype(np.float64), exact, rtol=1e-5)


def test_a_flattened_batch_is_launched_by_the_product() -> None:
    program = lower(graph_of(lambda x: mx.tanh(x.reshape(6, 64)), (2, 3, 64)), Elementwise(4))
    assert program.outputs[0].shape == ("size_0 * size_1", 64)
    assert program.kernels[0].grid == ("size_0 * size_1 * 16", 1, 1)


def test_an_input_may_be_as_long_as_a_product(run: Run, draw: Draw) -> None:
    graph = graph_of(lambda x, y: x.reshape(-1, 8) * y, (2, 3, 8), (6, 8))
    program = lower(graph, Elementwise(1))
    assert program.inputs[1].shape == ("size_0 * size_1", "size_2")
    other = resize(graph, {(0, 0): 5, (0, 1): 4, (0, 2): 9})
    arrays = [draw(type_, seed) for seed, type_ in enumerate(other.input_types)]
    (found,) = run(program, other, arrays)
    (exact,) = reference(other, arrays)
    assert np.allclose(found.astype(np.float64), exact, rtol=1e-5)
