"""The sanitizer and the counters see each access, whatever its size."""

import functools

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library
from kernelwright.metal.device.simulator.record import Outcome
from kernelwright.metal.device.simulator.unmarked import may_lack_marks
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


def _launch(library: Library, kernel: str, size: int, *, count: bool) -> Outcome:
    """Launch over arrays of so many bytes."""
    x, y = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    shape = (_THREADS, 1, 1)
    simulated = library.kernel(kernel)
    return simulated.launch(
        {"x": x, "y": y}, grid=shape, threadgroup=shape, sanitize=not count, count=count
    )


def _beyond_the_end(outcome: Outcome) -> set[str]:
    return {r.variable for r in outcome.reports if r.kind is ReportKind.DEVICE_OUT_OF_BOUNDS}


def _bytes(outcome: Outcome) -> tuple[int, int]:
    """Return the bytes read from x and written to y."""
    assert outcome.counters is not None
    x, y = outcome.counters.buffers
    return x.bytes_read, y.bytes_written


@pytest.mark.parametrize("vector", _VECTORS)
def test_vectors_beyond_the_end_are_reported(vector: str) -> None:
    _, distance = _sizes(vector)
    short = (_THREADS - 1) * distance
    outcome = _launch(_library(), vector, short, count=False)
    assert _beyond_the_end(outcome) == {"x", "y"}


@pytest.mark.parametrize("vector", _VECTORS)
def test_bytes_of_vectors_are_counted(vector: str) -> None:
    size, distance = _sizes(vector)
    read, written = _bytes(_launch(_library(), vector, _THREADS * distance, count=True))
    assert written == _THREADS * size
    assert read >= _THREADS * size


_STRUCTS = {
    "uchar a, b, c;": 3,
    "uchar a[5];": 5,
    "half a, b, c;": 6,
    "uchar a[11];": 11,
    "float a, b, c;": 12,
}
_PASSED = """
struct S { %s };
inline S same(S s) { return s; }
kernel void copy(const device S* x [[buffer(0)]], device S* y [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = same(x[i]);
}
"""


@pytest.mark.parametrize("members", _STRUCTS)
def test_structs_that_functions_take_and_return_are_seen(members: str) -> None:
    library, size = simulator.compile(_PASSED % members), _STRUCTS[members]
    short = _launch(library, "copy", _THREADS * size - 1, count=False)
    assert _beyond_the_end(short) == {"x", "y"}
    assert _bytes(_launch(library, "copy", _THREADS * size, count=True)) == (_THREADS * size,) * 2


def test_nobody_is_told_of_the_padding_behind_three_elements() -> None:
    text = """
        kernel void k(device float3* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
          y[i] = float3(i);
          threadgroup_barrier(mem_flags::mem_device);
          float3 v = y[31 - i];
          threadgroup_barrier(mem_flags::mem_device);
          y[i] = fma(v, v, sqrt(v));
        }"""
    y, shape = np.zeros((_THREADS, 4), np.float32), (_THREADS, 1, 1)
    kernel = simulator.compile(text).kernel("k")
    outcome = kernel.launch([y], grid=shape, threadgroup=shape, fresh=["y"], sanitize=True)
    assert not outcome.reports


_WRAPPED = """
kernel void read(const device {0}* x [[buffer(0)]], const device {0}* w [[buffer(1)]],
                 device {0}* y [[buffer(2)]], uint i [[thread_position_in_grid]]) {{
  y[i] = w[i] + {1}[{2}];
}}
"""


@pytest.mark.parametrize("element", ["float", "long", "float4", "long4", "float4x4"])
@pytest.mark.parametrize("index", ["i - 1", "int(i) - 0x7fffffff"])
@pytest.mark.parametrize("name", ["x", "w"])
@pytest.mark.sampled(10)
def test_an_index_that_wraps_is_named_after_its_own_array(
    element: str, index: str, name: str
) -> None:
    library = simulator.compile(_WRAPPED.format(element, name, index))
    shape = (_THREADS, 1, 1)
    outcome = library.kernel("read").launch(
        {each: np.zeros(64 * _THREADS, np.uint8) for each in ("x", "w", "y")},
        grid=shape,
        threadgroup=shape,
        sanitize=True,
    )
    assert _beyond_the_end(outcome) == {name}


@pytest.mark.parametrize(
    "text",
    [
        "struct S { uchar a, b, c; };",
        "typedef packed_uchar3 P;",
        "vec<T, 3> v = x[i];",
        "array<uchar, 3> a;",
        '#include "own.h"',
    ],
)
def test_texts_whose_accesses_may_lack_marks_are_told(text: str) -> None:
    assert may_lack_marks(text)


def test_texts_of_numbers_alone_lack_no_marks() -> None:
    assert not may_lack_marks("void f(const struct kw_thread* kw_who) { y[i] = half(x[i]); }")
