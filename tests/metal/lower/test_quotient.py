"""Quotients by what a row's elements share are those of a division, bit for bit."""

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

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]


def shares(x: mx.array) -> mx.array:
    return x / mx.max(mx.abs(x), -1, keepdims=True)


def _rows(scales: Sequence[float]) -> Array:
    random = np.random.default_rng(3)
    rows = random.standard_normal((len(scales), 600))
    return np.asarray(rows * np.array(scales)[:, None], np.float32)


def _divided(run: Run, x: Array) -> Array:
    graph = ir.canonicalize(ir.capture(shares, mx.array(x)))
    program = lower(graph, schedules(graph, DEVICE)[0])
    assert "shared_quotient(" in str(program)
    return run(program, graph, [x])[0]


def test_quotients_are_rounded_as_a_division_is(run: Run) -> None:
    x = _rows([1e-20, 1e-3, 1, 3, 1e6, 1e20])

    np.testing.assert_array_equal(_divided(run, x), x / np.abs(x).max(-1, keepdims=True))


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan, 3e38, 1e-40])
def test_a_row_without_an_inverse_is_divided(run: Run, special: float) -> None:
    x = _rows([1, 1])
    x[1] = special * np.sign(x[1])

    with np.errstate(all="ignore"):
        expected = x / np.abs(x).max(-1, keepdims=True)
    np.testing.assert_array_equal(_divided(run, x), expected)
