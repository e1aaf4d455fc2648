"""A product that a row's maximum is found of is the same number wherever it is written again."""

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


@pytest.mark.parametrize(
    ("fn", "dtype", "is_rounded"),
    [
        (lambda x, w: mx.softmax(x * w, axis=-1), mx.float32, True),
        (lambda x, w: x * w - mx.max(x * w, axis=-1, keepdims=True), mx.float32, True),
        (lambda x, w: mx.logsumexp(-(x * w).reshape(4, 16), axis=-1), mx.float32, True),
        (lambda x, w: mx.softmax(x * 0.3 + w, axis=-1), mx.float32, False),
        (lambda x, w: mx.softmax(x * 0.3, axis=-1) * w, mx.float16, True),
        (lambda x, w: mx.softmax(x * 0.5, axis=-1) * w, mx.float16, False),
        (lambda x, w: mx.softmax(x * w, axis=-1), mx.float16, False),
        (lambda x, w: mx.max(x * w, axis=-1), mx.int32, False),
        (lambda x, w: x * w - mx.sum(x * w, axis=-1, keepdims=True), mx.float32, False),
    ],
)
def test_only_compared_products_that_lose_digits_are_rounded_at_once(
    fn: Weigh, dtype: mx.Dtype, *, is_rounded: bool
) -> None:
    """Compilers fuse across statements too, as NVIDIA's does: a name of its own is not enough."""
    x = mx.zeros((4, 16), dtype)
    graph = ir.canonicalize(ir.capture(fn, x, x))
    source = "".join(k.source for k in lower(graph, schedules(graph, DEVICE)[0]).kernels)
    assert ("metal::fma(" in source) is is_rounded
