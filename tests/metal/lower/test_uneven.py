"""Rows that no run divides: whole runs are read at once, what is left by single lanes."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.losses import cross_entropy

from kernelwright import ir
from kernelwright.ir import reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Rowwise
from kernelwright.plan import partition

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
Draw = Callable[[ir.TensorType, int], Array]
_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def _norm(x: mx.array) -> tuple[mx.array, mx.array]:
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) * mx.rsqrt(x.var(axis=-1, keepdims=True) + 1e-5), mean.squeeze(-1)


def _steps(x: mx.array) -> mx.array:
    """Rows that begin behind the first element of those in memory, and are shorter by one."""
    return mx.abs(x[:, 1:] - x[:, :-1]).sum(axis=-1)


def _masked(x: mx.array, y: mx.array) -> mx.array:
    return (x * y).sum(axis=-1) / (y.sum(axis=-1) + 1)


def _graph(function: Callable[..., object], shape: tuple[int, ...], inputs: int = 1) -> ir.Graph:
    zeros = [mx.zeros(shape, mx.float16)] * inputs
    (region,) = partition(ir.canonicalize(ir.capture(function, *zeros)))
    return region.extract()


_SCHEDULES = [
    Rowwise(32, 2, 4, cached=False),
    Rowwise(64, 1, 8, cached=True),
    Rowwise(64, 1, 4, cached=False, online=True),
]


@pytest.mark.parametrize(
    ("function", "columns", "inputs"),
    [(_softmax, 531, 1), (_norm, 1030, 1), (_steps, 900, 1), (_masked, 613, 2)],
)
@pytest.mark.parametrize("schedule", _SCHEDULES)
@pytest.mark.sampled(5)
def test_uneven_rows_are_right(
    run: Run,
    draw: Draw,
    function: Callable[..., object],
    columns: int,
    inputs: int,
    schedule: Rowwise,
) -> None:
    graph = _graph(function, (6, columns), inputs)
    arrays = [draw(type_, 5 + seed) for seed, type_ in enumerate(graph.input_types)]
    found = run(lower(graph, schedule), graph, arrays)
    for made, answer in zip(found, reference(graph, arrays), strict=True):
        np.testing.assert_allclose(made.astype(np.float64), answer, rtol=3e-3, atol=3e-3)


def test_long_uneven_rows_are_tried_in_runs_first() -> None:
    labels = mx.zeros((512,), mx.int32)
    graph = ir.canonicalize(ir.capture(cross_entropy, mx.zeros((512, 50257), mx.float16), labels))
    first = schedules(graph, _H200)[0]
    assert isinstance(first, Rowwise)
    assert first.vector > 1
    assert not first.cached, "1,024 lanes that keep 56 values each spill them"
    source = lower(graph, first).kernels[0].source
    assert "load_run" in source
    assert "lane < columns - whole" in source


def test_whole_runs_are_aligned() -> None:
    source = lower(_graph(_softmax, (6, 531)), Rowwise(32, 2, 4, cached=False)).kernels[0].source
    assert "auto x_runs = x + (((row * columns + 3) / 4) * 4);" in source
