"""Maps of pairs: every thread takes neighbours of several rows, and reads what they share once."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Elementwise
from kernelwright.plan import partition

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
Draw = Callable[[ir.TensorType, int], Array]
_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _gaussian(x: mx.array, y: mx.array) -> mx.array:
    return mx.exp(-0.5 * ((x[:, None] - y[None]) ** 2).sum(axis=-1))


def _overlap(x: mx.array, y: mx.array) -> mx.array:
    low, high = mx.maximum(x[:, None], y[None]), mx.minimum(x[:, None] + 1, y[None] + 1)
    return mx.maximum(high - low, 0).prod(axis=-1)


def _graph(function: Callable[..., object], rows: int, columns: int, length: int) -> ir.Graph:
    arrays = (mx.zeros((n, length), mx.float16) for n in (rows, columns))
    (region,) = partition(ir.canonicalize(ir.capture(function, *arrays)))
    return region.extract()


@pytest.mark.parametrize("function", [_gaussian, _overlap])
def test_pairs_are_tried_by_several_rows_a_thread_early(function: Callable[..., object]) -> None:
    first = schedules(_graph(function, 4096, 4096, 3), _H200)[:4]
    assert all(isinstance(s, Elementwise) for s in first)
    assert {s.rows for s in first if isinstance(s, Elementwise)} == {1, 2, 4, 8}


@pytest.mark.parametrize("function", [_gaussian, _overlap])
@pytest.mark.parametrize("schedule", [Elementwise(4, 32, 1, 4), Elementwise(8, 64, 1, 2)])
def test_pairs_are_right(
    run: Run, draw: Draw, function: Callable[..., object], schedule: Elementwise
) -> None:
    graph = _graph(function, 16, 40, 3)
    inputs = [draw(type_, seed) for seed, type_ in enumerate(graph.input_types)]
    (found,) = run(lower(graph, schedule), graph, inputs)
    (expected,) = reference(graph, inputs)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-3, atol=2e-3)


def test_rows_that_are_read_once_are_no_pairs() -> None:
    """A row of its own for every result is read from memory, whose time that is."""
    (region,) = partition(
        ir.canonicalize(ir.capture(lambda x: (x * x).sum(axis=-1), mx.zeros((65536, 3))))
    )
    assert not any(isinstance(s, Elementwise) for s in schedules(region.extract(), _H200))
