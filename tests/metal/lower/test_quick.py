"""What stands for accurate functions where results have 16 bits, for every half that there is."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright import ir
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Exact = NDArray[np.float64]
_SMALLEST = 2.0**-24
"""The distance of the halves around 0."""


def softplus(x: mx.array) -> mx.array:
    return mx.logaddexp(x, mx.zeros_like(x))


def tangents_of_double(x: mx.array) -> mx.array:
    return mx.tanh(x) * 2


@pytest.mark.parametrize(
    ("function", "word", "exact"),
    [
        (mx.tanh, "quick_tanh(", np.tanh),
        (tangents_of_double, "quick_tanh(", lambda x: 2 * np.tanh(x)),
        (softplus, "quick_logaddexp(", lambda x: np.logaddexp(x, 0)),
        (mx.sigmoid, "quick_sigmoid(", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_every_half_gives_the_nearest_half(
    run: Run,
    function: Callable[[mx.array], mx.array],
    word: str,
    exact: Callable[[Exact], Exact],
) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    graph = ir.canonicalize(ir.capture(function, mx.array(x)))
    program = lower(graph, schedules(graph, DEVICE)[0])
    assert word in str(program)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
        found = run(program, graph, [x])[0].astype(np.float64)
    numbers = np.isfinite(expected)

    np.testing.assert_array_equal(found[~numbers], expected[~numbers])
    digit = np.exp2(np.floor(np.log2(np.maximum(np.abs(expected[numbers]), 2.0**-14)))) * 2.0**-10
    error = np.abs(found[numbers] - expected[numbers]) / np.maximum(digit, _SMALLEST)
    assert error.max() < 0.51
