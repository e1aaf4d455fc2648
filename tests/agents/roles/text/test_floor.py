"""The floor of a task: near what a plain kernel is predicted to take, at every size."""

import mlx.core as mx
import pytest

from kernelwright.agents.roles.text.floor import floor_of
from kernelwright.evaluator.speed.prediction import predict_baselines
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import find_profile
from kernelwright.metal.perf.schedule_cost import expected_us
from kernelwright.metal.schedule import Elementwise


def clipped(x: mx.array, y: mx.array) -> mx.array:
    return mx.maximum(x * 2 + y, 0)


@pytest.mark.parametrize("chip", ["m3-max", "h200"])
@pytest.mark.parametrize("size", [10**n for n in range(3, 9)])
def test_a_plain_kernel_is_near_the_floor_and_no_baseline_below_it(chip: str, size: int) -> None:
    graph = canonicalize(capture(clipped, *[mx.zeros((size,))] * 2))
    device = DeviceInfo(name="metal", chip=chip, runtime="test", measures_time=True)
    profile = find_profile(chip)
    floor = floor_of(graph, device)
    assert floor is not None
    schedules = [Elementwise(threads=256, vector=vector) for vector in (1, 4)]
    best_us = min(expected_us(graph, schedules, profile).values())
    assert 1 <= best_us / floor.time_us < 1.1
    ways = predict_baselines(graph, profile).values()
    assert all(way.microseconds >= floor.time_us - 1e-6 for way in ways)


def test_what_a_small_task_waits_for_is_told() -> None:
    graph = canonicalize(capture(clipped, *[mx.zeros((1000,))] * 2))
    device = DeviceInfo(name="metal", chip="m3-max", runtime="test", measures_time=True)
    assert str(floor_of(graph, device)) == (
        "5.08 us: 4 us to start one kernel, and 1.08 us until any threads have begun, read "
        "and ended"
    )
