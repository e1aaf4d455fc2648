"""A template takes one file and a name in the registry, and goes all the way."""

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo, RunOptions
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.family.classify import Pattern
from kernelwright.metal.lower import footprint, lower, registry, schedules
from kernelwright.metal.schedule import Rowwise, parse, render
from tests.metal.lower.made_up_family import STRIDED, Strided

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


@pytest.fixture(autouse=True)
def _with_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the template in the registry, as a line of `FAMILIES` does."""
    known = registry.family_of(Pattern.ELEMENTWISE)
    family = replace(known, templates=(*known.templates, STRIDED))
    monkeypatch.setitem(registry._BY_PATTERN, Pattern.ELEMENTWISE, family)
    monkeypatch.setitem(registry._BY_SCHEDULE, Strided, STRIDED)


def _gelu(x: mx.array, y: mx.array) -> mx.array:
    return x * mx.sigmoid(1.702 * x) + y


def _turned(x: mx.array, y: mx.array) -> mx.array:
    return mx.swapaxes(x, 0, 1) * 2 - y[0, 0]


@pytest.mark.parametrize("function", [_gelu, _turned])
def test_every_schedule_is_tried_and_right(function: Callable[..., mx.array]) -> None:
    inputs = [np.random.default_rng(n).random((5, 9), np.float32) for n in range(2)]
    arrays = list(map(mx.array, inputs))
    graph = canonicalize(capture(function, *arrays))
    found = [s for s in schedules(graph, DEVICE) if isinstance(s, Strided)]
    assert len(found) == 4
    for schedule in found:
        assert parse(render(schedule)) == schedule
        assert footprint(graph, schedule).threadgroup_bytes == 0
        bound = lower(graph, schedule).bind(graph.input_types)
        run = SimulatorDevice().compile(bound).run(inputs, RunOptions())
        made = np.asarray(run.outputs[0], np.float32)
        np.testing.assert_allclose(made, np.array(function(*arrays), np.float32), rtol=1e-5)


def test_graphs_of_other_patterns_have_none_of_its_schedules() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((4, 64))))
    found = schedules(graph, DEVICE)
    assert any(isinstance(s, Rowwise) for s in found)
    assert not any(isinstance(s, Strided) for s in found)
