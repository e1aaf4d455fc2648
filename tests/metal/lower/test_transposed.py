"""Elementwise tiles of arrays that lie across the outputs: right for every shape and dtype."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.evaluator import Task
from kernelwright.ir import reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import Transposed, parse, render
from tests.metal.lower.conftest import Judge

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
Draw = Callable[[ir.TensorType, int], Array]
_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _scaled(x: mx.array) -> mx.array:
    return x.T * 2 + 1


def _channels_last(x: mx.array, bias: mx.array) -> mx.array:
    y = x.transpose(0, 2, 3, 1) + bias
    return y * mx.sigmoid(y)


def _plus_own(x: mx.array, y: mx.array) -> mx.array:
    return x + y.swapaxes(-1, -2)


def _both_ways(x: mx.array) -> mx.array:
    return 0.5 * (x + x.T)


def _outer_middle(x: mx.array) -> mx.array:
    return mx.contiguous(x.transpose(0, 3, 2, 1)) * 3


def _two_outputs(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
    return x.T + y, x.T * y


_CASES: list[tuple[Callable[..., object], tuple[tuple[int, ...], ...], Transposed]] = [
    (_scaled, ((64, 96),), Transposed(32, 32, 4, 64)),
    (_scaled, ((37, 41),), Transposed(16, 16, 4, 64)),
    (_scaled, ((38, 70),), Transposed(32, 16, 4, 64)),
    (_channels_last, ((2, 24, 6, 10), (24,)), Transposed(16, 32, 8, 64)),
    (_plus_own, ((3, 20, 36), (3, 36, 20)), Transposed(16, 16, 2, 64)),
    (_both_ways, ((33, 33),), Transposed(32, 32, 1, 256)),
    (_outer_middle, ((2, 12, 5, 18),), Transposed(16, 16, 2, 128)),
    (_two_outputs, ((24, 40), (40, 24)), Transposed(16, 32, 4, 128)),
]


def _graph(
    function: Callable[..., object], shapes: tuple[tuple[int, ...], ...], dtype: mx.Dtype
) -> ir.Graph:
    return ir.canonicalize(ir.capture(function, *(mx.zeros(s, dtype) for s in shapes)))


@pytest.mark.parametrize(("function", "shapes", "schedule"), _CASES)
def test_tiles_are_right(
    run: Run,
    draw: Draw,
    function: Callable[..., object],
    shapes: tuple[tuple[int, ...], ...],
    schedule: Transposed,
) -> None:
    graph = _graph(function, shapes, mx.float16)
    inputs = [draw(type_, seed) for seed, type_ in enumerate(graph.input_types)]
    found = run(lower(graph, schedule), graph, inputs)
    for made, expected in zip(found, reference(graph, inputs), strict=True):
        np.testing.assert_allclose(made.astype(np.float64), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_a_candidate_of_tiles_is_accepted(dtype: mx.Dtype, judge: Judge) -> None:
    graph = _graph(_channels_last, ((2, 24, 6, 10), (24,)), dtype)
    program = lower(graph, Transposed(16, 32, 8, 64))
    evaluation = judge(Task(graph, "transposed"), program)
    assert evaluation.is_correct, evaluation.summary


def test_what_lies_across_is_tried_in_tiles_first() -> None:
    graph = _graph(_channels_last, ((8, 256, 56, 56), (256,)), mx.float16)
    first = schedules(graph, _H200)[0]
    assert first == Transposed(64, 64, 4, 256)
    assert parse(render(first)) == first
    assert footprint(graph, first).threadgroup_bytes == 64 * 66 * 2


def test_short_sides_need_no_tiles() -> None:
    graph = _graph(_channels_last, ((8, 3, 256, 256), (3,)), mx.float16)
    assert not any(isinstance(s, Transposed) for s in schedules(graph, _H200))


def test_arrays_that_lie_like_the_outputs_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="use elementwise"):
        lower(_graph(mx.tanh, ((64, 64),), mx.float32), Transposed())


def test_threads_have_to_divide_a_tile() -> None:
    with pytest.raises(UnsupportedError, match="do not divide tiles of 24 x 32"):
        lower(_graph(_scaled, ((64, 96),), mx.float32), Transposed(24, 32, 4, 128))
