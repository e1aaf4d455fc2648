"""Arrays in a thread's own memory are found and sized; those elsewhere are not."""

import pytest

from kernelwright.metal.msl.thread_array import thread_array_bytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("float x_values[32];", 128),
        ("packed_half4 runs[4]; half h[3];", 38),
        ("half3 runs[2];", 16),
        ("float2x3 m[2];", 48),
        ("float a[2][3], b, c[4] = {0};", 40),
        ("thread uint8_t bits[16];", 16),
        ("float sums[ROWS];", 32),
        ("float sums[ROWS * 2];", 0),
        ("threadgroup float partial[32];", 0),
        ("float total = values[4]; y[i] = float(x[2]);", 0),
        ("Accumulator sums[4];", 0),
    ],
)
def test_bytes_of_a_thread_s_arrays(text: str, nbytes: int) -> None:
    assert thread_array_bytes(text, {"ROWS": 8}) == nbytes
