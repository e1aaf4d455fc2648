"""A product that a row's maximum is found of is the same number wherever it is written again."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import Graph
from kernelwright.metal.device.base import Array, DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Rowwise

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Weigh = Callable[[mx.array, mx.array], mx.array]


def of_products(x: mx.array, weight: mx.array) -> mx.array:
    return mx.softmax(x * weight, axis=-1)


def of_squares(x: mx.array, weight: mx.array) -> mx.array:
    return mx.softmax(mx.square(x), axis=-1) * weight


def of_negated(x: mx.array, weight: mx.array) -> mx.array:
    return mx.softmax(-(x * weight), axis=-1)


@pytest.mark.parametrize("is_online", [True, False])
@pytest.mark.parametrize("fn", [of_products, of_squares, of_negated])
def test_the_greatest_product_less_the_maximum_is_zero(
    run: Run, fn: Weigh, *, is_online: bool
) -> None:
    random = np.random.default_rng(0)
    x = np.asarray(random.standard_normal((8, 64)) * 1e6, np.float32)
    weight = np.asarray(random.standard_normal(64) * 1e6, np.float32)
    graph = ir.canonicalize(ir.capture(fn, mx.array(x), mx.array(weight)))
    again = [
        s
        for s in schedules(graph, DEVICE)
        if isinstance(s, Rowwise) and s.online is is_online and not s.cached
    ]
    (found,) = run(lower(graph, again[0]), graph, [x, weight])
    expected = np.asarray(fn(mx.array(x), mx.array(weight)))
    assert np.allclose(found.astype(np.float64), expected, rtol=1e-6)
