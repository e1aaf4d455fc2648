"""An index far beyond a thread's own array is reported with its line, and no stack overflow."""

import sys

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import LaunchError, ReportKind, SanitizerReport

_TEXT = """#include <metal_stdlib>
using namespace metal;
__attribute__((noinline)) void put(thread int* s, int at) {
  s[at] = 9;
}
kernel void direct(const device int* x, device int* y, uint i [[thread_position_in_grid]]) {
  int s[4] = {1, 2, 3, 4};
  s[x[0]] = 9;
  y[i] = s[i & 3];
}
kernel void called(const device int* x, device int* y, uint i [[thread_position_in_grid]]) {
  int s[4] = {1, 2, 3, 4};
  put(s, x[0]);
  y[i] = s[i & 3];
}
kernel void filled(const device int* x, device int* y, uint i [[thread_position_in_grid]]) {
  int s[4];
  for (int j = 0; j < x[0]; j++)
    s[j] = j;
  y[i] = s[i & 3];
}
"""


def _reports(kernel: str, index: int) -> tuple[SanitizerReport, ...]:
    buffers = [np.full(4, index, np.int32), np.zeros(4, np.int32)]
    launched = simulator.compile(_TEXT).kernel(kernel)
    size = (4, 1, 1)
    return launched.launch(buffers, grid=size, threadgroup=size, sanitize=True).reports


@pytest.mark.parametrize("index", [4, 100, 5000, 100_000, -20_000, -1_000_000])
def test_a_far_index_of_a_thread_array_has_its_line(index: int) -> None:
    [report] = _reports("direct", index)
    assert (report.kind, report.line) == (ReportKind.THREAD_OUT_OF_BOUNDS, 8)
    assert f"uses index {index} of s" in report.message


@pytest.mark.parametrize("index", [100, -20_000])
def test_a_far_access_through_a_pointer_has_its_line(index: int) -> None:
    [report] = _reports("called", index)
    assert (report.kind, report.line) == (ReportKind.THREAD_OUT_OF_BOUNDS, 4)


def test_a_loop_that_runs_over_an_array_has_the_line_of_its_store() -> None:
    found = [r.line for r in _reports("filled", 1000) if r.kind is ReportKind.THREAD_OUT_OF_BOUNDS]
    assert found == [19]


@pytest.mark.skipif(sys.platform == "darwin", reason="not told from an overflow there")
def test_without_the_sanitizer_a_far_index_is_no_stack_overflow() -> None:
    buffers = [np.full(4, -20_000, np.int32), np.zeros(4, np.int32)]
    kernel = simulator.compile(_TEXT).kernel("direct")
    with pytest.raises(LaunchError, match=r"memory of no buffer .* sanitize it to see where"):
        kernel.launch(buffers, grid=(4, 1, 1), threadgroup=(4, 1, 1))
