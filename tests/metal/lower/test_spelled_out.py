"""Short reductions inside longer ones are written out: one kernel, and no array of pairs."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir import reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.family import Pattern, classify, served
from kernelwright.metal.family.spelled_out import spelled_out
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
Draw = Callable[[ir.TensorType, int], Array]
_DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def _forces(p: mx.array, m: mx.array) -> mx.array:
    d = p[None] - p[:, None]
    squares = (d * d).sum(axis=-1) + 1e-2
    pull = m[None] * mx.rsqrt(squares) / squares
    return (d * pull[..., None]).sum(axis=1)


def _nearest(p: mx.array, m: mx.array) -> tuple[mx.array, mx.array]:
    d = mx.square(p[:, None] - p[None] - 0.25).sum(axis=-1) * m[None]
    return mx.argmin(d, axis=1), d.min(axis=1)


def _largest_mean(p: mx.array, m: mx.array) -> mx.array:
    d = mx.abs(p[:, None] - p[None]).mean(axis=-1)
    return (d + m).max(axis=1)


def _graph(function: Callable[..., object]) -> ir.Graph:
    points, masses = mx.zeros((40, 3)), mx.zeros((40,))
    (region,) = partition(ir.canonicalize(ir.capture(function, points, masses)))
    return region.extract()


@pytest.mark.parametrize("function", [_forces, _nearest, _largest_mean])
def test_reductions_within_reductions_are_one_kernel(
    run: Run, draw: Draw, function: Callable[..., object]
) -> None:
    graph = _graph(function)
    inputs = [draw(graph.input_types[0], 1), np.abs(draw(graph.input_types[1], 2)) + 0.5]
    for schedule in schedules(graph, _DEVICE)[:2]:
        program = lower(graph, schedule)
        assert len(program.kernels) == 1
        found = run(program, graph, inputs)
        for made, answer in zip(found, reference(graph, inputs), strict=True):
            np.testing.assert_allclose(made.astype(np.float64), answer, rtol=2e-5, atol=1e-5)


def test_what_is_written_out_computes_the_same(draw: Draw) -> None:
    graph = ir.canonicalize(ir.capture(_forces, mx.zeros((20, 3)), mx.zeros((20,))))
    inputs = [draw(t, seed) for seed, t in enumerate(graph.input_types)]
    (exact,), (same,) = reference(graph, inputs), reference(spelled_out(graph), inputs)
    np.testing.assert_allclose(same, exact, rtol=1e-12)


def test_short_reductions_alone_stay_what_they_are() -> None:
    graph = ir.canonicalize(ir.capture(lambda x: (x * x).sum(axis=-1), mx.zeros((64, 3))))
    assert served(graph) is graph
    assert classify(graph).pattern is Pattern.ROWWISE
