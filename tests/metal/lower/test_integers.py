"""Integers of every width meet numbers of their own type."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import Dtype, Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
INTEGERS = [d for d in Dtype if d.is_integer]


def met(x: mx.array) -> tuple[mx.array, ...]:
    return mx.maximum(x, 5), mx.minimum(x, 7), x // 3, x % 3, mx.where(x > 3, x * 2, 7)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.value)
def test_an_integer_meets_numbers(run: Run, dtype: Dtype) -> None:
    x = np.arange(100).astype(dtype.numpy)
    graph = ir.canonicalize(ir.capture(met, mx.array(x)))
    found = run(lower(graph, schedules(graph, DEVICE)[0]), graph, [x])
    for made, expected in zip(found, met(mx.array(x)), strict=True):
        np.testing.assert_array_equal(made, np.array(expected))
