"""Launches run every thread, keep lockstep, and end whatever the kernel does."""

import contextlib
import functools
import os
import platform
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library
from kernelwright.metal.device.simulator.build import build_runtime
from kernelwright.metal.diagnostic import LaunchError

_TEXT = """
#include <metal_stdlib>
using namespace metal;

kernel void positions(device uint4* out [[buffer(0)]],
                      uint3 grid_size [[threads_per_grid]], uint3 at [[thread_position_in_grid]],
                      uint3 local [[thread_position_in_threadgroup]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint3 size [[threads_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]],
                      uint index [[thread_index_in_threadgroup]]) {
  uint i = (at.z * grid_size.y + at.y) * grid_size.x + at.x;
  bool consistent = index == (local.z * size.y + local.y) * size.x + local.x && lane == index % 32;
  out[i] += uint4(1, consistent, group.x * 100 + group.y * 10 + group.z, size.x * size.y * size.z);
}

kernel void sums(const device float* x [[buffer(0)]], device float* out [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  out[i] = simd_sum(x[i]);
}

kernel void reduce(const device float* x [[buffer(0)]], device float* out [[buffer(1)]],
                   threadgroup float* shared [[threadgroup(0)]],
                   uint l [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]],
                   uint group [[threadgroup_position_in_grid]],
                   uint i [[thread_position_in_grid]]) {
  shared[l] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = n / 2; k > 0; k /= 2) {
    if (l < k) shared[l] += shared[l + k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (l == 0) out[group] = shared[0];
}

kernel void count(device atomic_uint* n [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(n, i, memory_order_relaxed);
}

kernel void race(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[0] = i;
}

kernel void poison(device uint* out [[buffer(0)]], uint l [[thread_index_in_threadgroup]],
                   uint i [[thread_position_in_grid]]) {
  threadgroup uint shared[64];
  out[i] = shared[l];
  threadgroup_barrier(mem_flags::mem_none);
  shared[l] = 7;
}

kernel void endless(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  volatile device uint* p = out;
  while (p[i] == 0) {}
}

kernel void endless_barrier(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  volatile device uint* p = out;
  while (p[i] == 0) threadgroup_barrier(mem_flags::mem_none);
}

kernel void stack(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  uint big[40000];
  for (uint k = 0; k < 40000; k++) big[k] = k * i;
  uint sum = 0;
  for (uint k = 0; k < 40000; k++) sum += big[(k * 7919 + i) % 40000];
  out[i] = sum;
}

kernel void wild(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device uint* p = (device uint*)(1ul << 20);
  p[i] = 1;
}

kernel void divide(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 8 / (out[i] - 1) + out[i] % (out[i] - 1);
}
"""


@functools.cache
def _library() -> Library:
    return simulator.compile(_TEXT)


@pytest.mark.parametrize("order_seed", [0, 5])
@pytest.mark.parametrize(
    ("grid", "threadgroup"),
    [
        ((128, 1, 1), (64, 1, 1)),
        ((7, 5, 3), (4, 2, 2)),
        ((33, 3, 1), (32, 32, 1)),
        ((1, 1, 1), (8, 8, 8)),
    ],
)
def test_every_thread_runs_once_with_its_own_position(
    grid: tuple[int, int, int], threadgroup: tuple[int, int, int], order_seed: int
) -> None:
    out = np.zeros((*reversed(grid), 4), np.uint32)

    _library().kernel("positions").launch(
        [out], grid=grid, threadgroup=threadgroup, order_seed=order_seed
    )

    size = np.minimum(threadgroup, grid)
    z, y, x = np.indices(out.shape[:3])
    at = np.stack([x, y, z], -1) // size
    rest = np.minimum(np.array(grid) - at * size, size)
    assert (out[..., :2] == 1).all()
    np.testing.assert_array_equal(out[..., 2], at @ [100, 10, 1])
    np.testing.assert_array_equal(out[..., 3], rest.prod(-1))


def test_partial_simdgroup_sums_its_own_lanes() -> None:
    x, out = np.arange(71, dtype=np.float32), np.zeros(71, np.float32)

    _library().kernel("sums").launch([x, out], grid=(71, 1, 1), threadgroup=(64, 1, 1))

    parts = [x[:32], x[32:64], x[64:]]
    np.testing.assert_array_equal(out, np.concatenate([np.full(p.size, p.sum()) for p in parts]))


@pytest.mark.parametrize("order_seed", [0, 1, 2])
def test_threadgroup_argument_holds_a_tree_reduction(order_seed: int) -> None:
    x, out = np.arange(2048, dtype=np.float32), np.zeros(8, np.float32)

    _library().kernel("reduce").launch(
        [x, out],
        grid=(2048, 1, 1),
        threadgroup=(256, 1, 1),
        threadgroup_bytes={0: 1024},
        order_seed=order_seed,
    )

    np.testing.assert_array_equal(out, x.reshape(8, 256).sum(1))


def test_device_atomics_hold_across_cores() -> None:
    n = np.zeros(1, np.uint32)

    _library().kernel("count").launch([n], grid=(20000, 1, 1), threadgroup=(32, 1, 1))

    assert n[0] == sum(range(20000))


def _thread_ns() -> dict[str, int]:
    """Return the processor time that each of this process's threads has had."""
    times = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            times[task.name] = int((task / "schedstat").read_text().split()[0])
    return times


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="asks Linux of its threads")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="takes two cores")
def test_a_small_launch_that_goes_on_gets_more_cores() -> None:
    text = """
        #include <metal_stdlib>
        using namespace metal;
        kernel void steps(device uint* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
          uint v = i; for (uint n = 0; n < 10000; n++) v = v * 1664525u + (v >> 7); y[i] = v;
        }"""
    kernel = simulator.compile(text).kernel("steps")
    y = np.zeros(4096, np.uint32)
    before = _thread_ns()

    kernel.launch([y], grid=(4096, 1, 1), threadgroup=(32, 1, 1))

    spent = [ns - before.get(thread, 0) for thread, ns in _thread_ns().items()]
    expected = np.arange(4096, dtype=np.uint32)
    for _ in range(10000):
        expected = expected * np.uint32(1664525) + (expected >> np.uint32(7))
    np.testing.assert_array_equal(y, expected)
    assert sum(ns > 1_000_000 for ns in spent) >= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_launches_on_threads_of_its_own() -> None:
    def sum_of(count: int) -> int:
        n = np.zeros(1, np.uint32)
        _library().kernel("count").launch([n], grid=(count, 1, 1), threadgroup=(32, 1, 1))
        return int(n[0])

    assert sum_of(20000) == sum(range(20000))
    if not (child := os.fork()):
        is_right = sum_of(20000) == sum(range(20000)) and sum_of(64) == sum(range(64))
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum_of(64) == sum(range(64))


def test_order_seed_decides_who_comes_last() -> None:
    def last(order_seed: int) -> int:
        out = np.zeros(1, np.uint32)
        _library().kernel("race").launch(
            [out], grid=(32, 1, 1), threadgroup=(32, 1, 1), order_seed=order_seed
        )
        return int(out[0])

    seeds = [last(seed) for seed in range(8)]
    assert seeds == [last(seed) for seed in range(8)]
    assert len(set(seeds)) > 2


def test_threadgroup_memory_is_poisoned_for_each_threadgroup() -> None:
    out = np.zeros(256, np.uint32)

    _library().kernel("poison").launch([out], grid=(256, 1, 1), threadgroup=(64, 1, 1))

    assert (out == 0xFFFFFFFF).all()


@pytest.mark.parametrize("name", ["endless", "endless_barrier"])
def test_endless_loop_ends_at_its_timeout(name: str) -> None:
    started = time.monotonic()

    with pytest.raises(LaunchError, match=r"did not end within its budget"):
        _launch_one(name, timeout_s=0.2)

    assert time.monotonic() - started < 5
    out = np.zeros(64, np.uint32)
    _library().kernel("poison").launch([out], grid=(64, 1, 1), threadgroup=(64, 1, 1))
    assert out.all()


@pytest.mark.parametrize(
    ("name", "message"),
    [("stack", "overflowed its stack"), ("wild", "memory of no buffer")],
)
def test_fault_ends_the_launch_and_not_the_process(name: str, message: str) -> None:
    # A thread of the runtime's runs many launches.
    for _ in range(3):
        with pytest.raises(LaunchError, match=message):
            _launch_one(name)
        out = np.zeros(64, np.uint32)
        _library().kernel("poison").launch([out], grid=(64, 1, 1), threadgroup=(64, 1, 1))
        assert out.all()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 traps")
def test_division_by_zero_goes_on_with_zero() -> None:
    out = np.array([1, 2, 5], np.uint32)

    _library().kernel("divide").launch([out], grid=(3, 1, 1), threadgroup=(1, 1, 1))

    np.testing.assert_array_equal(out, [0, 8, 3])


def test_oversized_threadgroup_is_refused() -> None:
    with pytest.raises(LaunchError, match="at most 1024 threads, found 2048"):
        _library().kernel("race").launch(
            [np.zeros(1, np.uint32)], grid=(4096, 1, 1), threadgroup=(2048, 1, 1)
        )


def test_readonly_output_is_refused() -> None:
    out = np.zeros(64, np.uint32)
    out.flags.writeable = False

    with pytest.raises(LaunchError, match="out, whose array is read-only"):
        _launch_one("poison", out)


@pytest.mark.parametrize(
    ("machine", "system", "magic"),
    [
        ("arm64", "darwin", b"\xcf\xfa\xed\xfe"),
        pytest.param("aarch64", "linux", b"\x7fELF", marks=pytest.mark.slow),
    ],
)
def test_runtime_builds_for_other_machines(machine: str, system: str, magic: bytes) -> None:
    assert build_runtime(machine, system).read_bytes()[:4] == magic


def _launch_one(name: str, out: NDArray[np.uint32] | None = None, timeout_s: float = 30) -> None:
    _library().kernel(name).launch(
        [np.zeros(64, np.uint32) if out is None else out],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        timeout_s=timeout_s,
    )
