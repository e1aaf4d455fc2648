"""Rows that are read from their end stay within them."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Scan

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Step = Callable[[mx.array], mx.array]


def running(x: mx.array) -> mx.array:
    return mx.cumsum(x[:, ::-1], axis=1)


def weighed(x: mx.array) -> mx.array:
    return mx.softmax(x[:, ::-1], axis=1)


def every_second(x: mx.array) -> mx.array:
    return x[:, ::-2] / mx.max(mx.abs(x[:, ::-2]), axis=1, keepdims=True)


@pytest.mark.parametrize("fn", [running, weighed, every_second])
def test_a_row_may_be_read_from_its_end(run: Run, fn: Step) -> None:
    x = np.random.default_rng(0).standard_normal((5, 37), dtype=np.float32)
    graph = ir.canonicalize(ir.capture(fn, mx.array(x)))
    expected = np.array(fn(mx.array(x)))
    for schedule in schedules(graph, DEVICE)[:4]:
        (found,) = run(lower(graph, schedule), graph, [x])
        assert np.allclose(found.astype(np.float64), expected, atol=1e-5), schedule


def from_the_end(x: mx.array) -> tuple[mx.array, ...]:
    return mx.cumsum(x, -1, reverse=True), mx.cummax(x * x, -1, reverse=True, inclusive=False)


@pytest.mark.parametrize("columns", [64, 300])
@pytest.mark.parametrize("vector", [2, 4])
def test_a_scan_from_the_end_takes_runs(run: Run, columns: int, vector: int) -> None:
    x = np.random.default_rng(0).standard_normal((5, columns), dtype=np.float32)
    graph = ir.canonicalize(ir.capture(from_the_end, mx.array(x)))
    program = lower(graph, Scan(32, 4, vector))
    assert "load_run" in program.kernels[0].source
    found = run(program, graph, [x])
    for ours, theirs in zip(found, from_the_end(mx.array(x)), strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), np.array(theirs), atol=1e-4)
