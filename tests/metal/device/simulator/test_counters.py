"""Counters are exact on small launches, and those of lockstep."""

import functools

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.base import BufferTraffic, Counters, LineCost
from kernelwright.metal.device.simulator import Library

_SIGNATURE = """
kernel void {name}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   device atomic_uint* n [[buffer(2)]],
                   uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {{
"""
_BODIES = {
    "copies": "y[i] = x[i];",
    "strided": "y[i] = x[i * 8 % 1024];",
    "broadcast": "y[i] = x[3];",
    "vector": "if (i < 256) ((device float4*)y)[i] = ((const device float4*)x)[i];",
    "fma": "float v = x[i]; for (int k = 0; k < 10; k++) v = fma(v, v, 1.5f); y[i] = v;",
    "adds": "y[i] = x[i] + 2.0f + x[0];",
    "special": "y[i] = exp(x[i]);",
    "quick": "y[i] = fast::exp(x[i]) + fast::divide(1.0f, x[i]) + precise::exp(x[i]);",
    "quick_vector": "float4 v = fast::exp(float4(x[i])); y[i] = v.x + v.y + v.z + v.w;",
    "twice": "float a = x[i]; if (a > 2) y[i] = 0; y[i] = a + x[i ^ 32];",
    "loops": "float s = 0; for (uint k = i; k < 512 * ceil(x[0]); k += 64) s += x[k]; y[i] = s;",
    "chooses": "float s = 0; for (uint k = i; k < 512 * ceil(x[0]); k += 64)"
    "{ float v = x[k]; if (v > s) { s = v; y[k] = s; } }",
    "rows": "float s = 0; for (uint k = 0; k < 8; k++) s = s * 2 + x[8 * i + k]; y[i] = s;",
    "long_rows": "float s = 0; for (uint k = 0; k < 16; k++) s = s * 2 + x[16 * i + k]; y[i] = s;",
    "divides": "y[i] = 1.0f / x[i];",
    "barriers": "threadgroup float s[64]; s[l] = x[i];"
    "for (int k = 0; k < 5; k++) threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[l ^ 1];",
    "simd": "y[i] = simd_sum(x[i]) + simd_max(x[i]);",
    "banks": "threadgroup float s[2048]; s[l * 32] = x[i];"
    "threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[l * 32];",
    "no_banks": "threadgroup float s[2048]; s[l * 33 % 2048] = x[i];"
    "threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[l * 33 % 2048];",
    "atomics": "y[i] = 0; atomic_fetch_add_explicit(n, 1u, memory_order_relaxed);",
    "diverges": "float v = x[i];"
    "if (i % 2) { for (int k = 0; k < 50; k++) v = fma(v, v, 0.5f); } y[i] = v;",
}


@functools.cache
def _library() -> Library:
    kernels = "".join(_SIGNATURE.format(name=n) + body + "\n}\n" for n, body in _BODIES.items())
    return simulator.compile("#include <metal_stdlib>\nusing namespace metal;\n" + kernels)


@functools.cache
def _count(name: str, threads: int = 1024) -> Counters:
    x = np.linspace(0.1, 0.9, max(threads, 1024), dtype=np.float32)
    outcome = (
        _library()
        .kernel(name)
        .launch(
            [x, np.zeros_like(x), np.zeros(1, np.uint32)],
            grid=(threads, 1, 1),
            threadgroup=(64, 1, 1),
            count=True,
        )
    )
    assert outcome.counters is not None
    return outcome.counters


def _buffer(name: str, buffer: str) -> BufferTraffic:
    return next(b for b in _count(name).buffers if b.name == buffer)


def test_contiguous_access_moves_whole_sectors() -> None:
    x, y = _buffer("copies", "x"), _buffer("copies", "y")

    assert (x.bytes_read, x.sectors_read, x.unique_bytes_read) == (4096, 128, 4096)
    assert (y.bytes_written, y.sectors_written, y.unique_bytes_written) == (4096, 128, 4096)
    assert (x.bytes_written, y.bytes_read) == (0, 0)


def test_strided_access_moves_a_sector_for_every_lane() -> None:
    x = _buffer("strided", "x")

    assert (x.bytes_read, x.sectors_read) == (4096, 1024)
    assert (x.unique_bytes_read, x.unique_sectors_read) == (512, 128)


def test_one_address_is_one_sector_for_each_simdgroup() -> None:
    x = _buffer("broadcast", "x")

    assert (x.bytes_read, x.sectors_read, x.unique_bytes_read) == (4096, 32, 4)


def test_a_sector_is_counted_once_for_each_threadgroup_that_reads_it() -> None:
    sectors = {n: _buffer(n, "x").group_sectors_read for n in ("copies", "twice", "broadcast")}

    assert sectors == {"copies": 128, "twice": 128, "broadcast": 16}
    assert _buffer("twice", "x").sectors_read == 256


def test_neighbours_are_joined_up_to_two_vectors_a_lane() -> None:
    eight, sixteen = _count("rows", 64).buffers[0], _count("long_rows", 64).buffers[0]

    assert (eight.reads, eight.bytes_read) == (2 * 2, 64 * 32)
    assert (sixteen.reads, sixteen.bytes_read) == (2 * (2 + 8), 64 * 64)


def test_rounds_of_reads_in_plain_loops_are_told_from_others() -> None:
    loops, chooses = _count("loops", 64).buffers[0], _count("chooses", 64).buffers[0]

    assert (loops.reads, loops.read_rounds, loops.looped_rounds) == (18, 18, 14)
    assert (chooses.reads, chooses.read_rounds, chooses.looped_rounds) == (34, 18, 0)


def test_fast_math_makes_unqualified_functions_quick() -> None:
    text = "kernel void f(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {"
    body = "x[i] = metal::exp(x[i]); }"
    x = np.ones(64, np.float32)
    counted = (
        simulator.compile(
            f"#include <metal_stdlib>\n{text}{body}", math_mode="fast", variant="count"
        )
        .kernel("f")
        .launch([x], grid=(64, 1, 1), threadgroup=(32, 1, 1), count=True)
    )

    assert counted.counters is not None
    assert counted.counters.quick_operations == 64


def test_reads_and_writes_are_counted_by_the_simdgroup() -> None:
    assert [_buffer(name, "x").reads for name in ("copies", "vector", "adds")] == [32, 8, 64]
    assert (_buffer("copies", "y").reads, _buffer("copies", "y").writes) == (0, 32)
    assert _buffer("copies", "x").writes == 0


def test_vector_access_counts_its_bytes() -> None:
    x = _buffer("vector", "x")

    assert (x.bytes_read, x.sectors_read) == (4096, 128)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("fma", "float_operations", 1024 * 20),
        ("adds", "float_operations", 1024 * 2),
        ("special", "special_operations", 1024),
        ("divides", "special_operations", 1024),
        ("quick", "special_operations", 1024 * 3),
        ("quick", "quick_operations", 1024 * 2),
        ("quick_vector", "quick_operations", 1024 * 4),
        ("special", "quick_operations", 0),
        ("barriers", "barriers", 16 * 5),
        ("simd", "simd_operations", 32 * 2),
        ("atomics", "atomic_operations", 1024),
        ("copies", "divergent_branches", 0),
        ("copies", "float_operations", 0),
        ("barriers", "threadgroup_bytes_read", 4096),
        ("barriers", "threadgroup_bytes_written", 4096),
        ("barriers", "threadgroup_bytes", 256),
        ("barriers", "bank_conflicts", 0),
        ("banks", "bank_conflicts", 32 * 31 * 2),
        ("no_banks", "bank_conflicts", 0),
    ],
)
def test_count(name: str, field: str, value: int) -> None:
    assert getattr(_count(name), field) == value


def test_divergence_shows_in_the_active_lanes() -> None:
    counters = _count("diverges")

    assert counters.divergent_branches > 0
    assert counters.active_lanes < 0.6
    assert _count("fma").active_lanes == 1


def test_big_grid_is_sampled_and_says_so() -> None:
    counters = _count("fma", 64 * 4096)

    assert counters.counted_threadgroups is not None
    assert counters.counted_threadgroups < counters.threadgroups == 4096
    assert counters.float_operations == 64 * 4096 * 20
    x = next(b for b in counters.buffers if b.name == "x")
    assert x.bytes_read == x.unique_bytes_read == 64 * 4096 * 4


@pytest.mark.parametrize(
    ("body", "touched"),
    [
        # All threadgroups share an eighth of x, or more of it the later they come.
        (
            "float v = 0; for (uint k = 0; k < 8; k++) v += x[(i % 128 + k * 4096)]; y[i] = v;",
            1 / 256,
        ),
        ("float v = 0; for (uint k = 0; k < i / 64; k++) v += x[k * 8 + l % 8]; y[i] = v;", 1 / 8),
        ("y[i] = i / 64 % 2 ? 0 : x[i];", 1 / 2),
    ],
)
def test_what_a_sample_touched_says_what_all_touch(body: str, touched: float) -> None:
    threads = 64 * 4096
    x, y = np.zeros(threads, np.float32), np.zeros(threads, np.float32)
    text = "#include <metal_stdlib>\nusing namespace metal;\n" + _SIGNATURE.format(name="k") + body

    outcome = (
        simulator.compile(text + "\n}")
        .kernel("k")
        .launch(
            [x, y, np.zeros(1, np.uint32)], grid=(threads, 1, 1), threadgroup=(64, 1, 1), count=True
        )
    )

    assert outcome.counters is not None
    assert outcome.counters.counted_threadgroups == 128
    traffic = next(b for b in outcome.counters.buffers if b.name == "x")
    assert traffic.unique_bytes_read == pytest.approx(x.nbytes * touched, rel=0.1)


def test_counting_leaves_the_results_alone() -> None:
    x, y = np.linspace(0, 1, 1024, dtype=np.float32), np.zeros(1024, np.float32)

    _library().kernel("simd").launch(
        [x, y, np.zeros(1, np.uint32)], grid=(1024, 1, 1), threadgroup=(64, 1, 1), count=True
    )

    lanes = x.reshape(-1, 32)
    expected = np.repeat(lanes.sum(1) + lanes.max(1), 32)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


_LINES = """\
#include <metal_stdlib>
using namespace metal;
float twice(float v) {
  return fma(v, 2.0f, 1.0f) * v;
}
kernel void k(const device float* x [[buffer(0)]], const device float* w [[buffer(1)]],
              device float* y [[buffer(2)]], uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_threadgroup]]) {
  threadgroup float s[2048];
  s[l * 32] = x[i * 8 % 1024];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float v = s[l * 32] + w[i];
  for (int k = 0; k < 40; k++)
    v = twice(v);
  simdgroup_float8x8 tile;
  simdgroup_load(tile, x, 8);
  simdgroup_store(tile, y, 8);
  y[i] = dot(float4(v), float4(w[0]));
}
"""


@functools.cache
def _by_line() -> dict[int, LineCost]:
    x = np.linspace(0.1, 0.9, 1024, dtype=np.float32)
    kernel = simulator.compile(_LINES).kernel("k")
    outcome = kernel.launch(
        [x, x.copy(), np.zeros_like(x)], grid=(1024, 1, 1), threadgroup=(64, 1, 1), count=True
    )
    assert outcome.counters is not None
    return {cost.line: cost for cost in outcome.counters.lines}


@pytest.mark.parametrize(
    ("line", "sectors"),
    [(10, (("x", 1024),)), (12, (("w", 128),)), (16, (("x", 256),)), (18, (("y", 128), ("w", 32)))],
    ids=["strided", "rows", "of the library", "two arrays"],
)
def test_a_line_has_the_sectors_that_it_moves(
    line: int, sectors: tuple[tuple[str, int], ...]
) -> None:
    assert _by_line()[line].sectors == sectors


def test_a_line_has_the_conflicts_and_the_operations_that_are_its_own() -> None:
    found = _by_line()
    assert {line for line, cost in found.items() if cost.bank_conflicts} == {10, 12}
    assert found[4].operations == 1024 * 40 * 3


_UNEVEN = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const uint* rounds [[buffer(0)]], device const float* x [[buffer(1)]],
              device float* y [[buffer(2)]], uint i [[thread_position_in_grid]],
              uint g [[threadgroup_position_in_grid]]) {
  float sum = 0;
  for (uint n = 0; n < rounds[g]; ++n) sum += x[(i + n) % 4096];
  y[i] = sum;
}
"""


@pytest.mark.parametrize("most", [1, 64])
def test_a_sample_tells_its_error_and_all_threadgroups_none(most: int) -> None:
    rounds = np.random.default_rng(0).integers(0, most, 2048).astype(np.uint32) + 1
    x, threads = np.ones(4096, np.float32), 2048 * 32

    def counted(count_all: bool) -> Counters:
        outcome = (
            simulator.compile(_UNEVEN)
            .kernel("k")
            .launch(
                [rounds, x, np.zeros(threads, np.float32)],
                grid=(threads, 1, 1),
                threadgroup=(32, 1, 1),
                count=True,
                count_all=count_all,
            )
        )
        assert outcome.counters is not None
        return outcome.counters

    exact, sampled = counted(count_all=True), counted(count_all=False)
    expected = 4 * 32 * int(rounds.sum())
    assert exact.buffers[1].bytes_read == expected
    assert (exact.counted_threadgroups, exact.sampling_error) == (2048, 0.0)
    assert (sampled.counted_threadgroups or 0) < 2048
    assert (sampled.sampling_error > 0.05) == (most > 1)
    assert abs(sampled.buffers[1].bytes_read / expected - 1) <= 1.5 * sampled.sampling_error + 1e-3
