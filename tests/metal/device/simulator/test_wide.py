"""Lanes that run together compute, bit for bit, what lanes on fibers of their own compute."""

import random
from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import compiler, toolchain
from kernelwright.metal.device.simulator.library import SimulatedKernel
from kernelwright.metal.device.simulator.unit import Section, prepare
from kernelwright.metal.device.simulator.wide.widen import has_narrow_regions, widen
from kernelwright.metal.diagnostic import LaunchError

_TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]],
              uint l [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
              uint s [[simdgroup_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
              uint group [[threadgroup_position_in_grid]]) {
  threadgroup float shared[256];
  BODY
}
"""
_BODIES = {
    "softmax": """
  float v = x[i], high = simd_max(v);
  if (lane == 0) shared[s] = high;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < (size + 31) / 32; k++) high = max(high, shared[k]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  v = exp(v - high);
  float sum = simd_sum(v);
  if (lane == 0) shared[s] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0;
  for (uint k = 0; k < (size + 31) / 32; k++) sum += shared[k];
  y[i] = v / sum;""",
    "tree": """
  shared[l] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 128; k > 0; k /= 2) {
    if (l < k && l + k < size) shared[l] += shared[l + k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  y[i] = shared[0] + float(l);""",
    "scan": """
  float before = simd_prefix_exclusive_sum(x[i]);
  y[i] = before + simd_shuffle_down(before, 3) * simd_broadcast(x[i], 1);""",
    "swap": """
  float a = x[i], b = 1, c = 2;
  for (uint k = 0; k < n % 7 + 3; k++) {
    float t = a; a = b; b = simd_shuffle_xor(t, 1 << (k & 3)); c += a;
  }
  y[i] = a + 2 * b + 3 * c;""",
    "array": """
  float v[8];
  for (uint k = 0; k < 8; k++) v[k] = x[(i + k) % n];
  for (uint k = 0; k < 8; k++) v[(k + lane) % 8] += simd_sum(v[k]);
  y[i] = v[lane % 8] + v[n % 8];""",
    # A pointer into a thread's array lives across a wait, beside the array's own name.
    "pointer": """
  float v[4] = {1, 2, 3, 4}, c = x[i];
  if (n % 2 == 1) c += simd_broadcast(simd_sum(v[lane % 4]), 7);
  c += simd_sum(v[lane % 4]);
  for (uint k = 0; k < l % 3; k++) v[uint(fabs(x[i]) * 9) % 4] += v[lane % 4] * 0.5f + c;
  y[i] = v[lane % 4] + v[0];""",
    # InstCombine of LLVM 22 would load what the lane has just stored: see opaque.py.
    "exchange": """
  shared[l] = x[i] + 5;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float t = 3;
  if (x[i] > 0) { t = shared[l]; shared[l] = 1; }
  y[i] = t + 0.5f * simd_shuffle_xor(t, 1) + shared[l];""",
    # A group of accesses two apart would load before the store: see WIDENED_FLAGS.
    "pairs": """
  threadgroup float pairs[512];
  pairs[2 * l] = x[i];
  y[i] = 1;
  float t = pairs[2 * l];
  pairs[2 * l + 1] = t + 1;
  y[i] = simd_sum(t) + pairs[2 * l + 1];""",
    # What is loaded under a condition lives across a wait, and is loaded again behind it.
    "again": """
  float sum = 0;
  for (uint k = 0; k < n % 5 + 3; k++) {
    if (k % 2 == 1) continue;
    float t = x[(i + k) % n];
    shared[l] = t;
    sum += simd_sum(t) * t + shared[l];
  }
  y[i] = sum;""",
    "while": """
  uint steps = uint(fabs(x[i]) * 5.0f), most = simd_max(steps);
  float sum = 0;
  for (uint k = 0; k < steps; k++) sum += x[(i + k * 7) % n];
  for (uint k = 0; k < most; k++) sum += simd_sum(k < steps ? 1.0f : 0.5f);
  y[i] = sum;""",
    "switch": """
  float v = x[i];
  switch (lane % 5) {
    case 0: v = v * 2; break;
    case 1: v = exp(v); break;
    case 2: for (uint k = 0; k < lane; k++) v += 1; break;
    default: v = -v;
  }
  bool big = v > 0.5f;
  y[i] = simd_sum(v) + (big ? v : float(simd_any(big)));""",
    "leavers": """
  if (x[i] > 1.0f) { y[i] = -1; return; }
  y[i] = simd_sum(1.0f) + float(simd_is_first());
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] += 1;""",
    "apart": """
  float v = x[i];
  if (lane % 3 == 0) v = simd_sum(v);
  else if (lane % 3 == 1) { v = simd_max(v); simdgroup_barrier(mem_flags::mem_none); }
  for (uint k = 0; k < lane % 4; k++) v += simd_sum(1.0f);
  y[i] = v;""",
    # Lanes of different rounds meet in one operation, each with a counter of its own.
    "rounds": """
  float a = x[i], b = 1;
  for (uint k = 0; k < 3; k++) {
    if (lane % 3 != 1)
      for (uint j = 0; j < lane % 4; j++) a = b - simd_max(float(lane)) + 0.25f;
    b = b * float(k + 1) + simd_sum(float(l));
  }
  y[i] = a + 2 * b;""",
    # Each lane moves 16 elements that lie side by side, so that vectors are its own: see shape.py.
    "runs": """
  threadgroup float moved[4096];
  float own[16];
  for (uint k = 0; k < 16; k++) own[k] = x[(i * 16 + k) % n];
  for (uint turn = 0; turn < 4; turn++) {
    uint zeros = 0;
    for (uint k = 0; k < 16; k++) zeros += (as_type<uint>(own[k]) >> (turn + 9) & 1) == 0;
    float before = simd_prefix_exclusive_sum(float(zeros));
    if (lane == 31) shared[s] = before + zeros;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < (size + 31) / 32; k++) before += k < s ? shared[k] : 0;
    uint low = l * 16, high = low + 15;
    for (uint k = 0; k < 16; k++)
      moved[(as_type<uint>(own[k]) >> (turn + 9) & 1) == 0 ? low++ : high--] = own[k] + before;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) own[k] = moved[(l * 16 + k * 7) % (16 * size)];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) moved[l * 16 + k] = own[k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) own[k] = moved[l * 16 + k];
  }
  float sum = 0;
  for (uint k = 0; k < 16; k++) sum += own[k] * float(k + 1);
  y[i] = sum;""",
    # Two counters of opposite cases in one loop: see opposite.py.
    "partition": """
  threadgroup float moved[4096];
  float own[16];
  for (uint k = 0; k < 16; k++) own[k] = x[(i * 16 + k) % n];
  for (uint turn = 0; turn < 3; turn++) {
    uint left = l * 16, right = left;
    for (uint k = 0; k < 16; k++) right += (as_type<uint>(own[k]) >> (turn + 9) & 1) == 0;
    float all = simd_sum(float(right));
    for (uint k = 0; k < 16; k++)
      moved[(as_type<uint>(own[k]) >> (turn + 9) & 1) == 0 ? left++ : right++] = own[k] + all;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) own[k] = moved[16 * l + k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    ushort first = 0, last = 15;
    for (uint k = 0; k < 16; k++) moved[16 * l + (own[k] > 0 ? first++ : last--)] = own[k] * 0.5f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) own[k] = moved[16 * l + k] + float(first) - float(last);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) moved[16 * l + k] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  float sum = 0;
  for (uint k = 0; k < 16; k++) sum += own[k] * float(k + 1);
  y[i] = sum;""",
    # Stores where running counts say: see counting.py.
    "compaction": """
  threadgroup float moved[6144];
  threadgroup uint counts[256];
  float own[24];
  for (uint k = 0; k < 24; k++) own[k] = x[(i * 24 + k) % n];
  for (uint turn = 0; turn < 3; turn++) {
    for (uint k = 0; k < 24; k++) moved[24 * l + k] = -1;
    uint rises = 24 * l, odd = 0;
    for (uint k = 0; k < 24; k++) {
      moved[rises] = own[k];
      rises += (as_type<uint>(own[k]) >> (turn + 9) & 1) != 0;
    }
    counts[l] = rises;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 24; k++) own[k] = moved[24 * l + k] + 0.25f * float(counts[l]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int falls = 24 * l + 23;
    for (uint k = 0; k < 24; k++) {
      bool is_odd = (as_type<uint>(own[k]) >> (turn + 12) & 1) != 0;
      odd += is_odd;
      moved[falls] = float(odd + k);
      falls -= is_odd;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 24; k++) own[k] += moved[24 * l + k] + float(odd);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  float sum = 0;
  for (uint k = 0; k < 24; k++) sum += own[k] * float(k + 1);
  y[i] = sum;""",
    # What a pointer reaches may be either array's: see aliasing.py.
    "either": """
  float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  thread float* p = x[i] > 0 ? a : b;
  for (uint k = 0; k < n % 3 + 2; k++) {
    p[(l + k) % 4] += simd_sum(a[(l + k) % 4]) + b[lane % 4];
    a[k % 4] += p[lane % 4];
  }
  y[i] = a[l % 4] + 2 * b[lane % 4] + p[n % 4];""",
    "matrix": """
  simdgroup_matrix<float, 8, 8> a, b, c(0);
  uint tile = (i / 32) * 64 % (n - 64);
  simdgroup_load(a, x + tile, 8);
  simdgroup_load(b, x + tile, 8, ulong2(0), true);
  for (uint k = 0; k < 3; k++) simdgroup_multiply_accumulate(c, a, b, c);
  y[i] = c.thread_elements()[0] + c.thread_elements()[1];""",
}
_SIZES = [(2048, 256), (1000, 96), (71, 64)]


def _compile(body: str) -> SimulatedKernel:
    return simulator.compile(_TEXT.replace("BODY", body)).kernel("k")


def _launch(kernel: SimulatedKernel, threads: int, size: int, timeout_s: float = 30.0) -> Array:
    x = np.random.default_rng(0).standard_normal(threads).astype(np.float32)
    y = np.full(threads, np.nan, np.float32)
    kernel.launch(
        [x, y, np.uint32(threads)],
        grid=(threads, 1, 1),
        threadgroup=(size, 1, 1),
        timeout_s=timeout_s,
    )
    return y


@pytest.mark.parametrize("name", _BODIES)
@pytest.mark.sampled(10)
def test_lanes_together_compute_what_fibers_compute(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = _compile(_BODIES[name])
    expected = [_launch(kernel, *sizes) for sizes in _SIZES]

    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    found = [_launch(kernel, *sizes) for sizes in _SIZES]

    assert [e.name for e in kernel.library.image("wide").entries] == ["k"]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


_OWN = ("pair[2 * l]", "pair[2 * l + 1]", "shared[l]", "y[i]", "v", "u", "w")
_ARRAYS = (*_OWN, "a[0]", "a[l % 4]", "a[3]")
_ALIKE = ("v += simd_sum(u);", "u = simd_shuffle_xor(v, 1);", "v = simd_max(u) * 0.5f;")
_SOME = ("l < 40", "lane == 0", "x[i] > 0", "v > u", "n > 3", "(l & 4)")


def _written_at_random(seed: int) -> str:
    """Return a body whose threads keep to their own places, in every order and condition."""
    chance = random.Random(seed)
    # Most do not index arrays nor loop, for those loops over lanes become vectors.
    is_plain = seed % 4 != 0
    places = _OWN if is_plain else _ARRAYS

    def value() -> str:
        kind = chance.random()
        if kind < 0.6:
            return chance.choice(places)
        if kind < 0.8:
            return chance.choice(("x[i]", "x[n - 1 - i]", "0.25f"))
        return f"({chance.choice(places)} {chance.choice('+-*')} x[i])"

    def statement(depth: int) -> str:
        kind = chance.random()
        if kind < 0.6 or depth == 2:
            return f"{chance.choice(places)} = {value()};"
        if depth == 0 and kind < 0.7:
            return chance.choice(_ALIKE)
        inner = " ".join(statement(depth + 1) for _ in range(2))
        if is_plain or kind < 0.93:
            other = f" else {{ {statement(depth + 1)} }}" if chance.random() < 0.5 else ""
            return f"if ({chance.choice(_SOME)}) {{ {inner} }}{other}"
        return f"for (uint k = 0; k < {chance.choice(('2', 'n % 4', 'l % 3'))}; k++) {{ {inner} }}"

    body = "\n  ".join(statement(0) for _ in range(8))
    return f"""
  threadgroup float pair[512];
  float v = x[i], u = simd_sum(x[i]), w = 1, a[4] = {{1, 2, 3, 4}};
  pair[2 * l] = v; pair[2 * l + 1] = u; shared[l] = 5; y[i] = 7;
  {body}
  y[i] += v + 2 * u + 3 * w + a[{"3" if is_plain else "l % 4"}];
  y[i] += pair[2 * l] + pair[2 * l + 1] + shared[l];"""


def test_lanes_together_compute_what_fibers_compute_of_random_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"k{seed}" for seed in range(24)]
    kernel = _TEXT[_TEXT.index("kernel void") :]
    texts = [
        kernel.replace("void k(", f"void {name}(").replace("BODY", _written_at_random(seed))
        for seed, name in enumerate(names)
    ]
    library = simulator.compile(_TEXT[: _TEXT.index("kernel void")] + "".join(texts))
    monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", len(names))
    for name in names:
        expected = _launch(library.kernel(name), 1000, 256)
        with monkeypatch.context() as forced:
            forced.setattr(compiler, "WIDE_THREADS", 1)
            found = _launch(library.kernel(name), 1000, 256)
        np.testing.assert_array_equal(found, expected, name)
    assert len(library.image("wide").entries) == len(names)


def test_a_launch_is_wide_by_its_threads() -> None:
    kernel = _compile(_BODIES["scan"])
    _launch(kernel, compiler.WIDE_THREADS - 32, 32)
    assert ("wide", ()) not in kernel.library._images

    _launch(kernel, compiler.WIDE_THREADS, 32)

    assert ("wide", ()) in kernel.library._images


@pytest.mark.parametrize(("sanitize", "form"), [(False, "wide"), (True, "vet")])
def test_small_launches_gain_a_build_once_their_threads_have_waited_often(
    sanitize: bool, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = _compile(_BODIES["scan"])
    ones, zeros = np.ones(64, np.float32), np.zeros(64, np.float32)

    def waits() -> int:
        return kernel.launch(
            [ones, zeros, np.uint32(64)],
            grid=(64, 1, 1),
            threadgroup=(64, 1, 1),
            sanitize=sanitize,
        ).waits

    once = waits()
    assert once > 0
    monkeypatch.setattr(compiler, "WIDE_WAITS", 3 * once)
    monkeypatch.setattr(compiler, "VETTED_WAITS", 3 * once)
    assert [waits() for _ in range(4)] == [once, once, 0, 0]
    assert (form, ()) in kernel.library._images


def test_rows_shorter_than_a_simdgroup_run_on_fibers(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void k(device uint* y [[buffer(0)]], uint2 at [[thread_position_in_grid]]) {
  y[at.y * 8 + at.x] = simd_prefix_inclusive_sum(at.x + 10 * at.y);
}
"""
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    y = np.zeros((8, 8), np.uint32)

    simulator.compile(text).kernel("k").launch([y], grid=(8, 8, 1), threadgroup=(8, 8, 1))

    numbers = np.add.outer(10 * np.arange(8), np.arange(8)).reshape(2, 32)
    np.testing.assert_array_equal(y.reshape(2, 32), numbers.cumsum(1))


def test_a_function_that_waits_and_stands_alone_keeps_its_kernel_on_fibers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = "__attribute__((noinline)) float total(float v) { return simd_sum(v) * 2; }\n"
    text = _TEXT.replace("kernel void", alone + "kernel void")
    kernel = simulator.compile(text.replace("BODY", "y[i] = total(1) + float(n);")).kernel("k")
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)

    np.testing.assert_array_equal(_launch(kernel, 64, 64), 64 + 64)

    image = kernel.library.image("wide")
    assert image.entries == ()
    reason = "a function that it calls waits and stands alone; declare it inline"
    assert image.unwidened == (f"k:k: {reason}",)
    assert kernel.form == f"not widened: {reason}"


def test_a_kernel_tells_how_its_large_launches_run() -> None:
    assert _compile(_BODIES["scan"]).form == "widened: 32 lanes at a time"
    alone = "y[i] = x[i] + float(n);"
    assert _compile(alone).form == "rows of threads in loops, for none of them waits"


@pytest.mark.parametrize(("machine", "system"), [("aarch64", "linux"), ("arm64", "darwin")])
def test_kernels_are_cut_for_other_machines_too(machine: str, system: str, tmp_path: Path) -> None:
    unit = prepare([Section("source", _TEXT.replace("BODY", _BODIES["tree"]))], prelude="metal")
    source, listing, built = (tmp_path / f"k.{ending}" for ending in ("cpp", "ll", "o"))
    source.write_text(unit.text({}, rows=False))
    target = toolchain.target_flags(machine, system)
    flags = (*toolchain.LANGUAGE_FLAGS, *target, *toolchain.VARIANT_FLAGS["wide"])
    prelude = str(toolchain.INCLUDE / "kw" / "prelude.h")
    command = ["clang", "-x", "c++", *flags, *toolchain.DIAGNOSTIC_FLAGS, "-include", prelude]

    assert toolchain.run([*command, "-S", "-emit-llvm", str(source), "-o", str(listing)])[0] == 0
    listing.write_text(widen(listing.read_text()))
    second = ["clang", "-x", "ir", *target, *toolchain.WIDENED_FLAGS]
    assert toolchain.run([*second, "-c", str(listing), "-o", str(built)])[0] == 0

    assert b"kw_wide:k:k" in built.read_bytes()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("while (simd_any(x[0] < 100)) {} y[i] = 0;", r"did not end within its budget"),
        ("y[i] = simd_sum(x[i]) + x[n * 10000000ul];", "memory of no buffer"),
    ],
)
def test_what_goes_wrong_ends_the_launch(
    body: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    kernel = _compile(body)

    with pytest.raises(LaunchError, match=message):
        _launch(kernel, 256, 64, timeout_s=0.2)


def _widened(body: str, tmp_path: Path) -> str:
    unit = prepare([Section("source", _TEXT.replace("BODY", body))], prelude="metal")
    source, listing = tmp_path / "k.cpp", tmp_path / "k.ll"
    source.write_text(unit.text({}, rows=False))
    header = toolchain.precompiled_header(compiler.prelude_text("metal"), "wide")
    command = ["clang", "-x", "c++", *toolchain.flags("wide"), *toolchain.DIAGNOSTIC_FLAGS]
    command += ["-include-pch", str(header), "-S", "-emit-llvm"]
    assert toolchain.run([*command, str(source), "-o", str(listing)])[0] == 0
    return widen(listing.read_text())


@pytest.mark.parametrize(
    ("name", "is_narrow"), [("runs", True), ("softmax", False), ("tree", False)]
)
def test_lanes_that_move_runs_of_their_own_make_vectors_of_those(
    name: str, is_narrow: bool, tmp_path: Path
) -> None:
    assert has_narrow_regions(_widened(_BODIES[name], tmp_path)) is is_narrow


@pytest.mark.parametrize(
    ("pointer", "is_told"), [("a", True), ("x[i] > 0 ? a : b", False), ("lane > n ? b : a", False)]
)
def test_two_arrays_are_told_apart_where_no_pointer_may_be_into_either(
    pointer: str, is_told: bool, tmp_path: Path
) -> None:
    body = f"""
  float a[4] = {{1, 2, 3, 4}}, b[4] = {{5, 6, 7, 8}};
  thread float* p = {pointer};
  for (uint k = 0; k < n; k++) {{
    p[(l + k) % 4] += 1;
    simdgroup_barrier(mem_flags::mem_none);
    b[k % 4] += a[lane % 4];
  }}
  y[i] = a[l % 4] + b[l % 4];"""
    assert ("!alias.scope" in _widened(body, tmp_path)) is is_told
