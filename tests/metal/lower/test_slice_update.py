"""Updates of slices, whichever end they are counted from and whichever way they run."""

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
PLACES = [
    np.s_[1:-1, 1:-1],
    np.s_[-3:-1],
    np.s_[:, -4:],
    np.s_[::-1],
    np.s_[5:-2:2, 1:],
    np.s_[-2:3:-1],
    np.s_[:, ::-2],
    np.s_[::-3, -5:2:-1],
    np.s_[-1],
    np.s_[2:2],
]


@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.sampled(7)
def test_a_slice_is_updated_from_either_end(
    run: Run, place: tuple[slice, ...], is_added: bool
) -> None:
    def update(x: mx.array) -> mx.array:
        y = x * 1.0
        part = mx.tanh(x)[place]
        y[place] = y[place] + part if is_added else part
        return y

    x = np.random.default_rng(0).standard_normal((16, 33), dtype=np.float32)
    graph = ir.canonicalize(ir.capture(update, mx.array(x)))
    expected = np.array(update(mx.array(x)))
    for schedule in schedules(graph, DEVICE)[:2]:
        (found,) = run(lower(graph, schedule), graph, [x])
        assert np.allclose(found, expected, atol=1e-6), schedule
