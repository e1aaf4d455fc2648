"""Lanes that have parted meet again as those of a simdgroup in lockstep do."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.library import Library, SimulatedKernel
from kernelwright.metal.device.simulator.record import Outcome
from tests.metal.device.simulator.random_reconvergence import HEAD, LANES, Writer

_KERNELS = 12
_THREADS = 48
_MODES = ("plain", "shuffled", "sanitized", "counted", "wide", "watched")


def _compile(text: str, mode: str) -> Library:
    library = simulator.compile(text)
    if mode == "watched":
        # Launches take it for the plain build.
        library._images["plain", ()] = library.image("branches")
    return library


def _launch(
    kernel: SimulatedKernel, mode: str, x: NDArray[np.uint32], y: NDArray[np.uint32]
) -> Outcome:
    return kernel.launch(
        [x, y],
        grid=(x.size, 1, 1),
        threadgroup=(x.size, 1, 1),
        order_seed=7 if mode == "shuffled" else 0,
        sanitize=mode == "sanitized",
        count=mode == "counted",
    )


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.sampled(6)
def test_random_kernels_give_what_lockstep_gives(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "wide":
        monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
        monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", _KERNELS)
    writers = {n: Writer(n) for n in range(seed * _KERNELS, (seed + 1) * _KERNELS)}
    library = _compile(HEAD + "".join(w.text() for w in writers.values()), mode)
    x = np.random.default_rng(seed).integers(0, 64, _THREADS, np.uint32)

    for n, writer in writers.items():
        y = np.zeros_like(x)
        outcome = _launch(library.kernel(f"k{n}"), mode, x, y)
        parts = [writer.run(x[start : start + LANES]) for start in range(0, _THREADS, LANES)]
        assert y.tolist() == np.concatenate(parts).tolist(), f"k{n}"
        assert outcome.reports == (), f"k{n}"


_WATERFALL = """
#include <metal_stdlib>
using namespace metal;
kernel void k(const device uint* x, device uint* y, uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_simdgroup]]) {
  const uint key = x[i] & 3;
  uint sum = 0;
  for (;;) {
    if (key == simd_broadcast_first(key)) {
      sum = simd_sum(l);
      break;
    }
  }
  y[i] = sum;
}
"""
_MATCH_ANY = """
#include <metal_stdlib>
using namespace metal;
kernel void k(const device uint* x, device uint* y, uint i [[thread_position_in_grid]]) {
  const uint key = x[i] & 3;
  bool is_done = false;
  while (!is_done) {
    if (simd_broadcast_first(key) == key) {
      y[i] = uint(ulong(simd_active_threads_mask()));
      is_done = true;
    }
  }
}
"""


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("text", [_WATERFALL, _MATCH_ANY], ids=["waterfall", "match any"])
def test_lanes_with_one_key_act_together(
    text: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "wide":
        monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    x = np.random.default_rng(0).integers(0, 64, 2 * LANES, np.uint32)
    y = np.zeros_like(x)

    outcome = _launch(_compile(text, mode).kernel("k"), mode, x, y)

    lanes = np.arange(LANES)
    of_lane = lanes if text is _WATERFALL else 1 << lanes
    keys = x.reshape(2, LANES) & 3
    expected = [[int(of_lane[group == key].sum()) for key in group] for group in keys]
    assert y.reshape(2, LANES).tolist() == expected
    assert outcome.reports == ()


_ACCUMULATES = """
#include <metal_stdlib>
using namespace metal;
kernel void k(device uint* y, uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_simdgroup]]) {
  y[i] += 1;
  if (l < 16) y[i] += simd_sum(1u);
  y[i] += simd_sum(1u);
}
"""


def test_a_wide_launch_whose_lanes_part_starts_anew_on_fibers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    kernel = simulator.compile(_ACCUMULATES).kernel("k")
    y = np.full(LANES, 100, np.uint32)

    first, second = (
        kernel.launch([y], grid=(LANES, 1, 1), threadgroup=(LANES, 1, 1)) for _ in range(2)
    )

    assert y.tolist() == [100 + 2 * (49 if lane < 16 else 33) for lane in range(LANES)]
    # The second launch knows.
    assert (first.parted, second.parted) == (True, False)


_SKIPS = """
#include <metal_stdlib>
using namespace metal;
kernel void k(device uint* y, uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_simdgroup]]) {
  uint sum = 0;
  for (uint k = 0; k < y[i]; k++)
    if ((k + l) % 2) sum += simd_sum(k);
  y[i] = sum;
}
"""


def test_lanes_that_pass_an_operation_by_do_not_meet_in_other_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    library = simulator.compile(_SKIPS)
    y = np.full(LANES, 4, np.uint32)

    library.kernel("k").launch([y], grid=(LANES, 1, 1), threadgroup=(LANES, 1, 1))

    assert "different rounds" in library.kernel("k").form
    assert y.tolist() == [16 * (1 + 3) if lane % 2 == 0 else 16 * (0 + 2) for lane in range(LANES)]


_BEHIND_A_BARRIER = """
#include <metal_stdlib>
using namespace metal;
inline uint twice(uint v, uint l) {
  if (l < 16) v += simd_sum(1u);
  return v + simd_sum(1u);
}
kernel void k(const device uint* x, device uint* y, uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_simdgroup]]) {
  threadgroup uint shared[1024];
  shared[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = twice(shared[i ^ 1], l) + i;
}
"""


@pytest.mark.parametrize("mode", _MODES)
def test_lanes_know_their_own_path_when_others_have_run(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "wide":
        monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    i = np.arange(1024)
    x, y = i.astype(np.uint32), np.zeros(1024, np.uint32)

    outcome = _launch(_compile(_BEHIND_A_BARRIER, mode).kernel("k"), mode, x, y)

    assert y.tolist() == ((i ^ 1) + i + 32 + 16 * (i % 32 < 16)).tolist()
    assert outcome.reports == ()
