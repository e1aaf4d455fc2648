"""A thread's own arrays, structures and matrices hold what the program says, in every build."""

import numpy as np
import numpy.typing as npt
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from tests.metal.device.simulator.private_program import HEAD, THREADS, VALUES, Author, State

_KERNELS = 6

_LOOPS = {
    "uniform index": "for (uint k = 0; k < 33; ++k) sums[k & 3] += x[i * 40 + k];",
    "remainder": "for (uint k = 0; k < 65; ++k) sums[k % 4] += x[i * 40 + k];",
    "narrow counter": "for (uint k = 0; k < 33; ++k) sums[uchar(k << 6) >> 6] += x[i * 40 + k];",
    "two loops": (
        "for (uint j = 0; j < 2; ++j) for (uint k = 0; k < 33; ++k) sums[k & 3] += x[i * 40 + k];"
    ),
    "from a lane on": "for (uint k = 0, j = lane; j < 1024; j += 32, ++k) sums[k & 3] += x[j];",
    "backwards": "for (int k = 32; k >= 0; --k) sums[k & 3] += x[int(i) * 40 + k];",
    "next to it": (
        "for (uint k = 0; k < 33; ++k) sums[(k + 1) & 3] = sums[k & 3] * 0.5f + x[i * 40 + k];"
    ),
}


def _sums(loop: str, x: npt.NDArray[np.float32], i: int) -> float:
    sums, one = np.zeros(4, np.float32), x[i * 40 :]
    if loop == "from a lane on":
        for k, j in enumerate(range(i % 32, 1024, 32)):
            sums[k & 3] += x[j]
        return float(sums @ (1, 2, 3, 4))
    for _ in range(2 if loop == "two loops" else 1):
        for k in range(65 if loop == "remainder" else 33):
            if loop == "next to it":
                sums[(k + 1) & 3] = sums[k & 3] * np.float32(0.5) + one[k]
            else:
                sums[k & 3] += one[k]
    return float(sums @ (1, 2, 3, 4))


# LLVM 22 took a masked index for one that only grows, in loops of a known number of rounds.
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("loop", _LOOPS)
def test_a_loop_over_a_masked_index_stays_inside_its_array(loop: str, waits: bool) -> None:
    total = "sums[0] + 2 * sums[1] + 3 * sums[2] + 4 * sums[3]"
    text = f"""#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {{
  float sums[4] = {{0, 0, 0, 0}};
  {_LOOPS[loop]}
  y[i] = {total}{" + 0 * simd_sum(sums[0])" if waits else ""};
}}"""
    x = np.random.default_rng(0).integers(0, 64, 4096).astype(np.float32)
    y = np.full(64, np.nan, np.float32)
    kernel = simulator.compile(text).kernel("k")
    kernel.launch({"x": x, "y": y}, grid=(64, 1, 1), threadgroup=(32, 1, 1))
    np.testing.assert_allclose(y, [_sums(loop, x, i) for i in range(64)], rtol=1e-6)


def test_a_loop_over_a_rotated_index_comes_around() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void k(const device int* x [[buffer(0)]], device int* y [[buffer(1)]],
              uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {
  threadgroup int moved[2048];
  int own[32];
  for (uint k = 0; k < 32; k++) own[k] = x[i * 32 + k];
  for (uint turn = 0; turn < 4; turn++) {
    for (uint k = 0; k < 32; k++) moved[32 * l + k] = own[k] * 3;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 32; k++) own[k] = moved[32 * l + (k + turn) % 32] + own[k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint k = 0; k < 32; k++) y[i * 32 + k] = own[k];
}"""
    x = np.random.default_rng(0).integers(0, 64, (64, 32)).astype(np.int32)
    y, expected = np.zeros_like(x), x
    for turn in range(4):
        expected = np.roll(expected * 3, -turn, axis=1) + expected
    simulator.compile(text).kernel("k").launch([x, y], grid=(64, 1, 1), threadgroup=(64, 1, 1))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("build", ["plain", "wide", "vetted", "sanitized", "counted"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(5)
def test_programs_on_private_arrays_mean_what_numpy_says(
    seed: int, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 0 if build == "wide" else 1 << 40)
    monkeypatch.setattr(compiler, "VETTED_THREADS", 0 if build == "vetted" else 1 << 40)
    author = Author(seed)
    programs = [author.program(f"k{n}", waits=n % 2 == 1) for n in range(_KERNELS)]
    library = simulator.compile(HEAD + "".join(p.text for p in programs))
    for n, program in enumerate(programs):
        state = State(np.random.default_rng(seed).integers(0, 1 << 20, VALUES).astype(np.uint32))
        program.run(state, np.ones(THREADS, np.bool_))
        y = np.zeros(THREADS, np.uint32)
        outcome = library.kernel(f"k{n}").launch(
            {"x": state.x, "y": y},
            grid=(THREADS, 1, 1),
            threadgroup=(32, 1, 1),
            sanitize=build in ("vetted", "sanitized"),
            count=build == "counted",
        )
        assert not outcome.reports
        np.testing.assert_array_equal(y, state.result(), err_msg=program.text)
