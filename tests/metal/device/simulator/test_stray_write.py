"""A plain run that strays beyond an array is an error of one sentence, and the process lives."""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from kernelwright.metal import LaunchError, simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Library

_TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void scattered(device float* y [[buffer(0)]], constant long& at [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
  y[i] = i;
  if (i == 3) y[at] = 7;
}
kernel void gathered(device float* y [[buffer(0)]], constant long& at [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  y[i] = y[i + at];
}
kernel void waiting(device float* y [[buffer(0)]], constant long& at [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  y[i] = i;
  threadgroup_barrier(mem_flags::mem_device);
  if (i == 3) y[at] = 7;
}
kernel void long_one(device float* y [[buffer(0)]], constant long& at [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  float sum = y[i];
  for (long k = 0; k < at; k++) sum = sum * 1.0001f + 0.5f;
  y[i] = sum;
}
kernel void endless(device float* y [[buffer(0)]], constant long& at [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  y[i] = 1;
  for (uint k = 0; y[i] < 2; k += 2) y[i] = k % 2;
}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return simulator.compile(_TEXT)


def _launched(library: Library, name: str, y: Array, at: int, count: bool = False) -> None:
    library.kernel(name).launch(
        [y, at], grid=(32, 1, 1), threadgroup=(32, 1, 1), count=count, timeout_s=0.1
    )


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("size", [32, 1 << 20])
@pytest.mark.parametrize("name", ["scattered", "waiting"])
@pytest.mark.parametrize("beyond", [0, 40, 5_000, 10**6, 10**9, -(10**9), 10**15])
def test_a_store_beyond_an_array_changes_nothing(
    library: Library, name: str, size: int, beyond: int, count: bool
) -> None:
    y = np.full(size, -1, np.float32)
    with pytest.raises(LaunchError, match=f"^{name}: a thread .*; sanitize it to see where"):
        _launched(library, name, y, size + beyond, count)
    assert (y == -1).all()


def test_a_store_right_before_an_array_names_it(library: Library) -> None:
    with pytest.raises(LaunchError, match="scattered: a thread wrote beyond an end of y; sanitize"):
        _launched(library, "scattered", np.zeros(32, np.float32), -1)


@pytest.mark.parametrize("beyond", [5_000, 10**9])
def test_a_load_far_beyond_an_array_ends_the_launch(library: Library, beyond: int) -> None:
    with pytest.raises(LaunchError, match="gathered: a thread accessed memory of no buffer"):
        _launched(library, "gathered", np.zeros(32, np.float32), beyond)


def test_a_launch_that_fails_leaves_its_arrays_as_they_were(library: Library) -> None:
    y = np.zeros(32, np.float32)
    with pytest.raises(LaunchError, match="did not end within its budget"):
        _launched(library, "endless", y, 0)
    assert not y.any()


def test_a_launch_beyond_its_loan_writes_once(library: Library) -> None:
    y, one = np.zeros(32, np.float32), np.zeros(1, np.float32)
    _launched(library, "long_one", y, 2_000_000)
    library.kernel("long_one").launch([one, 2_000_000], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert one[0] > 0
    assert (y == one[0]).all()


@pytest.mark.parametrize("size", [33, 1000, 1024, 4095, 4096, 16_383])
def test_an_array_of_any_size_comes_back_whole(library: Library, size: int) -> None:
    y = np.arange(size, dtype=np.float32)
    _launched(library, "scattered", y, size - 1)
    assert y[-1] == 7
    assert (y[:-1] == np.arange(size - 1)).all()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_that_forks_during_a_launch_launches(library: Library) -> None:
    y, at = np.zeros(32, np.float32), np.int64(20_000_000)
    _launched(library, "scattered", y, 0)
    kernel, size = library.kernel("long_one"), (32, 1, 1)
    slow = threading.Thread(
        target=lambda: kernel.launch([y, at], grid=size, threadgroup=size, timeout_s=60)
    )
    slow.start()
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        os._exit(_exit_code(lambda: _launched(library, "waiting", np.zeros(32, np.float32), 0)))
    status = _waited(child, 30)
    slow.join()
    assert status == 0


def _exit_code(launches: Callable[[], None]) -> int:
    try:
        launches()
    except BaseException:
        return 1
    return 0


def _waited(child: int, seconds: float) -> int | None:
    """Return a child's exit code; None where it does not end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None
