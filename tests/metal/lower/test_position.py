"""Where a row's extremes stand: of equal values the first, and NaN before all numbers."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import Graph
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

DEVICE = DeviceInfo(name="cuda", chip="test", runtime="test", measures_time=True)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]


def extremes(x: mx.array) -> tuple[mx.array, mx.array]:
    return mx.argmax(x, -1), mx.argmin(x, -1)


def _ties(columns: int) -> Array:
    x = np.random.default_rng(0).integers(-3, 4, (9, columns)).astype(np.float32)
    x[1], x[2], x[3] = -np.inf, np.inf, np.nan
    x[4, columns // 2] = np.nan
    x[5, [1, columns - 1]] = np.nan
    x[6], x[6, columns // 3] = -0.0, 0.0
    x[7], x[7, columns - 1] = -np.inf, -1.0
    return x


@pytest.mark.parametrize("columns", [8, 96, 1000, 2056])
@pytest.mark.parametrize("dtype", [mx.float16, mx.float32])
@pytest.mark.parametrize("vector", [2, 4, 8])
@pytest.mark.sampled(8)
def test_the_first_of_equal_extremes_is_found_run_by_run(
    run: Run, columns: int, dtype: mx.Dtype, vector: int
) -> None:
    x = mx.array(_ties(columns)).astype(dtype)
    graph = ir.canonicalize(ir.capture(extremes, x))
    legal = [s for s in schedules(graph, DEVICE) if f"vector={vector}," in str(s)]
    for one in (*legal[:1], *legal[-1:]):
        found = run(lower(graph, one), graph, [to_numpy(x)])
        for ours, theirs in zip(found, extremes(x), strict=True):
            np.testing.assert_array_equal(ours, np.array(theirs))


def with_values(x: mx.array) -> tuple[mx.array, ...]:
    return mx.argmax(x, -1), mx.max(x, -1), mx.argmin(x, -1), mx.min(x, -1)


@pytest.mark.parametrize("columns", [8, 96, 1000])
def test_an_extreme_beside_its_place_is_found_once(run: Run, columns: int) -> None:
    x = mx.array(_ties(columns))
    graph = ir.canonicalize(ir.capture(with_values, x))
    legal = schedules(graph, DEVICE)
    for one in (legal[0], legal[-1]):
        program = lower(graph, one)
        (kernel,) = program.kernels
        assert "larger(" not in kernel.source
        found = run(program, graph, [to_numpy(x)])
        for ours, theirs in zip(found, with_values(x), strict=True):
            np.testing.assert_array_equal(ours, np.array(theirs))


def beside_an_input_of_this_name(best: mx.array) -> mx.array:
    return mx.argmax(best, -1)


def beside_a_sort(x: mx.array) -> mx.array:
    kept = x >= mx.sort(x, axis=-1)[..., -4:-3]
    return mx.argmax(mx.where(kept, x * 2, -1e4), -1)


@pytest.mark.parametrize("choose", [beside_an_input_of_this_name, beside_a_sort])
def test_a_position_is_found_beside_another_thing_called_best(
    run: Run, choose: Callable[[mx.array], mx.array]
) -> None:
    x = mx.array(np.random.default_rng(0).standard_normal((4, 64)).astype(np.float16))
    graph = ir.canonicalize(ir.capture(choose, x))
    (found,) = run(lower(graph, schedules(graph, DEVICE)[0]), graph, [to_numpy(x)])
    np.testing.assert_array_equal(found, np.array(choose(x)))
