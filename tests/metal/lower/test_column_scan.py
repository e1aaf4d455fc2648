"""Scans along an outer axis: right for every op, direction, dtype and tail."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.evaluator import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.space import footprint
from kernelwright.metal.schedule import ColumnScan, parse, render
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _gated(a: mx.array, b: mx.array) -> mx.array:
    return mx.cumsum(mx.sigmoid(a) * b, axis=1)


def _decay(x: mx.array) -> mx.array:
    return mx.exp(-mx.abs(mx.cumsum(x, axis=0))) * x


def _largest_backwards(x: mx.array) -> mx.array:
    return mx.cummax(x, axis=-2, reverse=True)


def _exclusive(x: mx.array) -> mx.array:
    return mx.cumsum(x * 0.5, axis=1, inclusive=False)


def _products(x: mx.array) -> mx.array:
    return mx.cumprod(mx.tanh(x), axis=1)


_CASES: list[tuple[Callable[..., object], tuple[int, ...], int]] = [
    (_gated, (2, 70, 24), 2),
    (_decay, (33, 8), 1),
    (_largest_backwards, (2, 3, 40, 6), 1),
    (_exclusive, (3, 64, 8), 1),
    (_products, (2, 19, 6), 1),
]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]
_SCHEDULES = [ColumnScan(4, 4, 1), ColumnScan(8, 2, 2), ColumnScan(2, 1, 1)]


def _graph(
    function: Callable[..., object], shape: tuple[int, ...], inputs: int, dtype: mx.Dtype
) -> ir.Graph:
    zeros = [mx.zeros(shape, dtype)] * inputs
    graph = ir.canonicalize(ir.capture(function, *zeros))
    (region,) = partition(graph)
    return region.extract()


# Each function meets each dtype once, and each schedule once.
@pytest.mark.parametrize(
    ("function", "shape", "inputs", "dtype", "schedule"),
    [
        (*case, dtype, _SCHEDULES[(number + place) % 3])
        for number, case in enumerate(_CASES)
        for place, dtype in enumerate(_DTYPES)
    ],
)
@pytest.mark.sampled(8)
def test_scans_along_an_outer_axis_are_right(
    function: Callable[..., object],
    shape: tuple[int, ...],
    inputs: int,
    dtype: mx.Dtype,
    schedule: ColumnScan,
    judge: Judge,
) -> None:
    graph = _graph(function, shape, inputs, dtype)
    evaluation = judge(Task(graph, "scan"), lower(graph, schedule))
    assert evaluation.is_correct, evaluation.summary


def test_neighbours_are_read_in_runs_by_many_strips_first() -> None:
    graph = _graph(_gated, (8, 2048, 1024), 2, mx.float16)
    first = schedules(graph, _H200)[0]
    assert isinstance(first, ColumnScan)
    assert first.vector > 1 < first.depth
    assert parse(render(first)) == first
    assert footprint(graph, first).threadgroup_bytes <= _H200.threadgroup_bytes


def test_rows_may_have_axes_of_one_element_behind_them(judge: Judge) -> None:
    graph = _graph(lambda x: mx.cumsum(x * 0.5, axis=1), (3, 40, 1), 1, mx.float32)
    first = next(iter(schedules(graph, _H200)))
    assert judge(Task(graph, "task"), lower(graph, first)).is_correct
