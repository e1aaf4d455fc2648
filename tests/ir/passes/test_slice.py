"""Every slice that Python can write replays to the same elements."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x[:, :-1],
        lambda x: x[:, -3:],
        lambda x: x[:, ::-1],
        lambda x: x[:, 10:2:-3],
        lambda x: x[:, -2:-9:-2],
        lambda x: x[:, 5:100],
        lambda x: x[-1:, 1:2],
    ],
)
def test_slice_replays_and_has_its_numpy_meaning(cut: Callable[[mx.array], mx.array]) -> None:
    x = mx.arange(48.0).reshape(3, 16)
    graph = ir.capture(lambda x: cut(x) * 2, x)
    expected = np.array(cut(x) * 2)
    np.testing.assert_array_equal(np.array(ir.interpret(graph, x)[0]), expected)
    np.testing.assert_array_equal(ir.reference(graph, [np.array(x)])[0], expected)
