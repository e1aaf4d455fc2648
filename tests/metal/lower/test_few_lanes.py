"""Lanes that are a part of a simdgroup find least and largest values, of floats and of integers."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, TensorType, canonicalize, capture, reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Rowwise

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def _ranged(x: mx.array) -> mx.array:
    low = x.min(axis=-1, keepdims=True)
    return (x - low) / (x.max(axis=-1, keepdims=True) - low + 1)


def _scaled(x: mx.array) -> mx.array:
    return x / (mx.abs(x).max(axis=-1, keepdims=True) + 1)


def _from_least(x: mx.array) -> mx.array:
    return x - x.min(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(_ranged, mx.float16), (_scaled, mx.float16), (_from_least, mx.int32)],
    ids=["range", "magnitude", "integers"],
)
def test_a_group_s_range_is_found_by_four_to_sixteen_lanes(
    function: Callable[[mx.array], mx.array],
    dtype: mx.Dtype,
    run: Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]],
    draw: Callable[[TensorType, int], Array],
) -> None:
    graph = canonicalize(capture(function, mx.zeros((70, 32), dtype)))
    arrays = [draw(type_, 1) for type_ in graph.input_types]
    (expected,) = reference(graph, arrays)
    few = [s for s in schedules(graph, DEVICE) if isinstance(s, Rowwise) and 1 < s.lanes < 32]
    for schedule in {s.lanes: s for s in few}.values():
        (found,) = run(lower(graph, schedule), graph, arrays)
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-3, atol=2e-3)
    assert len(few) > 2
