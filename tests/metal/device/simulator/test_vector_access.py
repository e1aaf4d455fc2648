"""The sanitizer and the counters see each access of a vector, whatever its size."""

import functools

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library
from kernelwright.metal.diagnostic import ReportKind

_BYTES = {"char": 1, "half": 2, "int": 4, "long": 8}
_VECTORS = [
    f"{packed}{scalar}{width}"
    for scalar in _BYTES
    for width in (2, 3, 4)
    for packed in ("", "packed_")
    if not (packed and width == 2)
]
_THREADS = 32
_TEXT = """
template <typename V>
kernel void twice(const device V* x [[buffer(0)]], device V* y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  y[i] = x[i] + x[i];
}
"""
_INSTANCE = (
    'template [[host_name("{0}")]] kernel void twice<{0}>(const device {0}*, device {0}*, uint);\n'
)


@functools.cache
def _library() -> Library:
    return simulator.compile(_TEXT + "".join(_INSTANCE.format(v) for v in _VECTORS))


def _sizes(vector: str) -> tuple[int, int]:
    """Return the bytes that a vector's elements take, and those from one vector to the next."""
    width, scalar = int(vector[-1]), _BYTES[vector.removeprefix("packed_")[:-1]]
    return width * scalar, (4 if vector[-1] == "3" and "_" not in vector else width) * scalar


@pytest.mark.parametrize("vector", _VECTORS)
def test_reads_and_writes_beyond_the_end_are_reported(vector: str) -> None:
    size, distance = _sizes(vector)
    short = (_THREADS - 1) * distance
    x, y = np.zeros(short, np.uint8), np.zeros(short, np.uint8)
    outcome = (
        _library()
        .kernel(vector)
        .launch([x, y], grid=(_THREADS, 1, 1), threadgroup=(_THREADS, 1, 1), sanitize=True)
    )
    found = {r.variable for r in outcome.reports if r.kind is ReportKind.DEVICE_OUT_OF_BOUNDS}
    assert found == {"x", "y"}, size


@pytest.mark.parametrize("vector", _VECTORS)
def test_bytes_read_and_written_are_counted(vector: str) -> None:
    size, distance = _sizes(vector)
    x, y = (np.zeros(_THREADS * distance, np.uint8) for _ in range(2))
    outcome = (
        _library()
        .kernel(vector)
        .launch([x, y], grid=(_THREADS, 1, 1), threadgroup=(_THREADS, 1, 1), count=True)
    )
    assert outcome.counters is not None
    read, written = outcome.counters.buffers[:2]
    assert written.bytes_written == _THREADS * size
    assert read.bytes_read >= _THREADS * size
