"""A launch is refused for the work that it does, whatever the machine and its load."""

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import budget, native
from kernelwright.metal.device.simulator.library import Library
from kernelwright.metal.device.simulator.metered import metered
from kernelwright.metal.device.simulator.record import Outcome
from kernelwright.metal.diagnostic import LaunchError

_TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void waits(device uint* y [[buffer(0)]], constant uint& rounds [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  uint t = y[i];
  for (uint k = 0; k < rounds || rounds == 0; ++k) t = simd_max(t * 1664525u + 1013904223u + i);
  y[i] = t;
}
kernel void runs(device uint* y [[buffer(0)]], constant uint& rounds [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  uint t = y[i];
  for (uint k = 0; k < rounds || rounds == 0; ++k) t = t * 1664525u + 1013904223u + (t >> 16);
  y[i] = t;
}"""
_THREADS = 128
_WAIT_UNITS, _THREAD_UNITS = 16, 4
"""Of work.h."""


@pytest.fixture(scope="module")
def library() -> Library:
    return simulator.compile(_TEXT)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch is one that does not end within its loan, as on a very slow machine."""
    perform = native.perform

    def hurry(
        runtime: ctypes.CDLL, request: native.RawRequest, *, loan_s: float, deadline: float
    ) -> native.Performed:
        if math.isfinite(loan_s) and request.fences:
            # What a launch that is cut has written does not come back.
            request.fences = native.DISCARDED
        performed = perform(runtime, request, loan_s=math.inf, deadline=deadline)
        return replace(performed, is_spent=math.isfinite(loan_s))

    monkeypatch.setattr(native, "perform", hurry)


def _run(
    library: Library, name: str, rounds: int, *, sanitize: bool = False, timeout_s: float = 30
) -> tuple[Array, Outcome]:
    y = np.arange(_THREADS, dtype=np.uint32)
    outcome = library.kernel(name).launch(
        {"y": y, "rounds": np.uint32(rounds)},
        grid=(_THREADS, 1, 1),
        threadgroup=(64, 1, 1),
        sanitize=sanitize,
        timeout_s=timeout_s,
    )
    return y, outcome


def test_an_outcome_tells_the_processor_time(library: Library) -> None:
    little, much = (_run(library, "waits", rounds)[1].work_s for rounds in (1, 100000))
    assert 0 <= little < much


@pytest.mark.parametrize("name", ["waits", "runs"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_an_endless_loop_is_refused(
    library: Library, name: str, sanitize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, a twentieth of a second is no hurry.
    monkeypatch.setattr(budget, "_PATIENCE", 2000)
    with pytest.raises(LaunchError, match=r"did not end within its budget, .* rounds of loops in"):
        _run(library, name, 0, sanitize=sanitize, timeout_s=0.05)


@pytest.mark.parametrize("name", ["waits", "runs"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_what_is_counted_and_does_little_goes_on_from_the_start(
    library: Library, name: str, sanitize: bool, request: pytest.FixtureRequest
) -> None:
    usual, _ = _run(library, name, 1000, sanitize=sanitize)
    request.getfixturevalue("hurried")
    hurried, _ = _run(library, name, 1000, sanitize=sanitize)
    np.testing.assert_array_equal(hurried, usual)


@pytest.mark.parametrize("room", [-1, 0])
@pytest.mark.usefixtures("hurried")
def test_the_verdict_hangs_on_the_count_alone(
    library: Library, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = _THREADS * (_THREAD_UNITS + 500 * (_WAIT_UNITS + 1))
    monkeypatch.setattr(budget.Budget, "units", units + room)
    if room < 0:
        with pytest.raises(LaunchError, match="did not end within its budget"):
            _run(library, "waits", 500)
    else:
        _run(library, "waits", 500)


def test_a_launch_without_processor_time_has_no_verdict(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "processor_s", lambda: 0.0)
    monkeypatch.setattr(budget, "_PATIENCE", 0)
    with pytest.raises(DeviceError, match="too little for a verdict; try again when the machine"):
        _run(library, "waits", 0, timeout_s=0.02)


def test_every_way_back_in_a_listing_is_counted() -> None:
    listing = """define void @f(i1 %c, i32 %k) {
  br label %1

1:
  br i1 %c, label %1, label %2

2:
  switch i32 %k, label %end [
    i32 0, label %1
    i32 1, label %2
  ]

end:
  ret void
}
"""
    counted = metered(listing, is_linux=True).split("\n")
    places = [n for n, line in enumerate(counted) if line == "  call void @kw_tick()"]
    assert [counted[n + 1].split()[0] for n in places] == ["br", "switch"]
