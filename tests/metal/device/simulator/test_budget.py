"""A launch is refused for the processor time it takes, whatever else the machine does."""

import time

import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device import simulator
from kernelwright.metal.device.base import Array
from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.library import SimulatedKernel
from kernelwright.metal.diagnostic import LaunchError

_TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void work(device uint* y [[buffer(0)]], constant uint& rounds [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  uint t = i;
  for (uint k = 0; k < rounds || rounds == 0; ++k) t = simd_max(t * 1664525u + 1013904223u + i);
  y[i] = t;
}"""


@pytest.fixture(scope="module")
def kernel() -> SimulatedKernel:
    return simulator.compile(_TEXT).kernel("work")


def _arrays(rounds: int) -> dict[int | str, Array]:
    return {"y": np.zeros(64, np.uint32), "rounds": np.array([rounds], np.uint32)}


def test_an_outcome_tells_the_processor_time(kernel: SimulatedKernel) -> None:
    little, much = (
        kernel.launch(dict(_arrays(rounds)), grid=(64, 1, 1), threadgroup=(64, 1, 1)).work_s
        for rounds in (1, 100000)
    )
    assert 0 <= little < much


@pytest.mark.parametrize("sanitize", [False, True])
def test_what_spends_its_budget_is_refused(kernel: SimulatedKernel, sanitize: bool) -> None:
    with pytest.raises(LaunchError, match=r"did not end within 0\.1 s of two cores; look for an"):
        kernel.launch(
            dict(_arrays(0)), grid=(64, 1, 1), threadgroup=(64, 1, 1), timeout_s=0.1,
            sanitize=sanitize,
        )  # fmt: skip


def test_a_busy_machine_does_not_refuse_an_honest_kernel(
    kernel: SimulatedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a machine with so many others at work that a second gives this process next to nothing.
    monkeypatch.setattr(native, "processor_s", lambda: time.monotonic() / 1000)
    monkeypatch.setattr(native, "PATIENCE", 1000)
    arrays = _arrays(100000)
    kernel.launch(dict(arrays), grid=(64, 1, 1), threadgroup=(64, 1, 1), timeout_s=0.05)
    assert np.asarray(arrays["y"]).any()


def test_a_launch_without_processor_time_has_no_verdict(
    kernel: SimulatedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "processor_s", lambda: 0.0)
    with pytest.raises(DeviceError, match="too little for a verdict; try again when the machine"):
        kernel.launch(dict(_arrays(0)), grid=(64, 1, 1), threadgroup=(64, 1, 1), timeout_s=0.02)
