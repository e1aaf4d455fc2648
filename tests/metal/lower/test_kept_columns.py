"""Columns that a thread or a few strips keep in registers between passes: read once, and right."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import Columnwise, Rowwise, parse, render
from kernelwright.plan import partition

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
Draw = Callable[[ir.TensorType, int], Array]
_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=1)


def _normal(x: mx.array) -> mx.array:
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) * mx.rsqrt(x.var(axis=1, keepdims=True) + 1e-5)


def _shares(x: mx.array) -> tuple[mx.array, mx.array]:
    total = mx.abs(x).sum(axis=0)
    return x / (total + 1), total


def _graph(function: Callable[..., object], shape: tuple[int, ...]) -> ir.Graph:
    graph = ir.canonicalize(ir.capture(function, mx.zeros(shape, mx.float16)))
    (region,) = partition(graph)
    return region.extract()


@pytest.mark.parametrize(
    ("function", "shape"),
    [(_softmax, (2, 19, 5, 8)), (_normal, (3, 64, 12)), (_shares, (21, 40))],
)
@pytest.mark.parametrize("strips", [2, 4, 16])
@pytest.mark.sampled(5)
def test_columns_kept_by_strips_are_right(
    run: Run,
    draw: Draw,
    function: Callable[..., object],
    shape: tuple[int, ...],
    strips: int,
) -> None:
    graph = _graph(function, shape)
    inputs = [draw(graph.input_types[0], 3)]
    program = lower(graph, Columnwise(strips, cached=True))
    expected = reference(graph, inputs)
    for made, answer in zip(run(program, graph, inputs), expected, strict=True):
        np.testing.assert_allclose(made.astype(np.float64), answer, rtol=2e-3, atol=2e-3)


def test_kept_columns_are_read_once() -> None:
    graph = _graph(_softmax, (16, 19, 256, 256))
    source = lower(graph, Columnwise(2, cached=True)).kernels[0].source
    assert source.count("x_row[") == 1


def test_short_columns_are_tried_by_a_thread_each_and_longer_ones_by_strips() -> None:
    short = schedules(_graph(_softmax, (16, 19, 256, 256)), _H200)[:2]
    assert all(isinstance(s, Rowwise) and s.lanes == 1 and s.cached for s in short)
    graph = _graph(_normal, (128, 1024, 80))
    first = schedules(graph, _H200)[0]
    assert first == Columnwise(32, cached=True)
    assert parse(render(first)) == first
    assert footprint(graph, first).registers >= 32


def test_columns_that_no_registers_hold_are_read_again() -> None:
    found = schedules(_graph(_normal, (64, 30000, 80)), _H200)
    assert not any(isinstance(s, Columnwise) and s.cached for s in found)
