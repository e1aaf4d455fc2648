"""Kernels in various styles compute what NumPy does, in every form that a launch may take."""

import sys
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library, compiler

Floats = NDArray[np.float32]
_THREADS = 256
_X: Floats = np.random.default_rng(3).standard_normal(_THREADS).astype(np.float32)
_HEAD = """
#include <metal_stdlib>
using namespace metal;
struct Pair { float low, high; };
static Pair range_of(const device float* p, uint n) {
  Pair r = {INFINITY, -INFINITY};
  uint k = 0;
  do { r.low = fmin(r.low, p[k]); r.high = fmax(r.high, p[k]); } while (++k < n);
  return r;
}
template <typename T> struct Moments {
  T n; T mean; T m2;
  void push(T v) thread { n += 1; T d = v - mean; mean += d / n; m2 += d * (v - mean); }
  static Moments merge(Moments a, Moments b) {
    T n = a.n + b.n; T d = b.mean - a.mean;
    return Moments{n, a.mean + d * b.n / n, a.m2 + b.m2 + d * d * a.n * b.n / n};
  }
};
struct Best { float value; uint at; };
threadgroup Best& pick(threadgroup Best& a, threadgroup Best& b) {
  if (b.value > a.value) a = b;
  return a;
}
"""
_SIGNATURE = """
kernel void {}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint sg [[simdgroup_index_in_threadgroup]]) {{
"""


def _walked(x: Floats) -> Floats:
    found = []
    for v in x:
        n, t = int(abs(v) * np.float32(10)), np.float32(0)
        while n > 0:
            t += x[n & 255]
            if n & 3 == 1:
                n >>= 1
                continue
            if t > 4:
                break
            n -= 1
        found.append(t)
    return np.array(found)


def _stepped(x: Floats) -> Floats:
    a: Floats = x.reshape(4, 64)
    for k in range(5):
        v = a + np.roll(a, -1, 1)
        a = v * np.float32(0.5) if k == 3 else v if k & 1 else v - np.roll(a, 1, 1)
    return a[:, ::-1].ravel()


def _exchanged(x: Floats) -> NDArray[np.float64]:
    i = np.arange(_THREADS)
    source = i // 32 * 32 + ((i % 32 ^ 7) + 3) % 32
    return x[source] + source + 3.0 * ((i + 5) % 32)


def _moments(x: Floats) -> Floats:
    groups = x.reshape(4, 64)
    return np.repeat(groups.mean(1) + groups.var(1), 64)


_KERNELS: dict[str, tuple[str, Callable[[Floats], NDArray[np.floating]]]] = {
    "walks": (
        """
  uint n = uint(abs(x[i]) * 10); float t = 0;
  while (n > 0) {
    t += x[n & 255];
    if ((n & 3) == 1) { n >>= 1; continue; }
    if (t > 4) break;
    n--;
  }
  y[i] = t + simd_sum(t) * 0;""",
        _walked,
    ),
    "steps": (
        """
  threadgroup float a[2][64]; int now = 0; a[0][l] = x[i];
  for (int k = 0; k < 5; k++) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float v = a[now][l] + a[now][(l + 1) & 63];
    if (k == 3) { a[1 - now][l] = v * 0.5f; }
    else if (k & 1) a[1 - now][l] = v;
    else { a[1 - now][l] = v - a[now][(l + 63) & 63]; }
    now ^= 1;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = a[now][63 - l];""",
        _stepped,
    ),
    "exchanges_vectors": (
        """
  float4 v = float4(x[i], x[i ^ 1], i, 1); half2 h = simd_shuffle(half2(lane, 3), (lane + 5) & 31);
  v = simd_shuffle_rotate_down(v, 3); v = simd_shuffle_xor(v, 7); y[i] = v.x + v.z + h.x * h.y;""",
        _exchanged,
    ),
    "merges_moments": (
        """
  Moments<float> m{0, 0, 0}; m.push(x[i]);
  for (ushort o = 16; o > 0; o >>= 1) m = Moments<float>::merge(m, {simd_shuffle_xor(m.n, o),
      simd_shuffle_xor(m.mean, o), simd_shuffle_xor(m.m2, o)});
  threadgroup Moments<float> s[2]; if (lane == 0) s[sg] = m;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  m = Moments<float>::merge(s[0], s[1]); y[i] = m.mean + m.m2 / m.n;""",
        _moments,
    ),
    "finds_the_best": (
        """
  threadgroup Best s[64]; s[l].value = x[i]; s[l].at = i;
  for (uint o = 32; o > 0; o /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup); if (l < o) pick(s[l], s[l + o]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[0].at;""",
        lambda x: np.repeat(x.reshape(4, 64).argmax(1) + np.arange(4.0) * 64, 64),
    ),
    "competes": (
        """
  threadgroup atomic_uint m; if (l == 0) atomic_store_explicit(&m, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint mine = as_type<uint>(abs(x[i])), old = atomic_load_explicit(&m, memory_order_relaxed);
  while (mine > old && !atomic_compare_exchange_weak_explicit(&m, &old, mine,
      memory_order_relaxed, memory_order_relaxed));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = as_type<float>(atomic_load_explicit(&m, memory_order_relaxed));""",
        lambda x: np.repeat(abs(x).reshape(4, 64).max(1), 64),
    ),
    "ranges": (
        "Pair p = range_of(x + (i & 127), 1 + i % 9); y[i] = p.high - p.low;",
        lambda x: np.array([np.ptp(x[i & 127 : (i & 127) + 1 + i % 9]) for i in range(_THREADS)]),
    ),
    "falls_through": (
        """
  int r = 0;
  switch (i % 6) {
    case 0: r += 1;
    case 1: r += 10; break;
    case 2: { r = 7; for (int k = 0; k < 3; k++) { if (k == 1) continue; r += k; } } break;
    case 3: if (x[i] > 0) break; r = 3;
    default: r += 100;
  }
  y[i] = r;""",
        lambda x: np.array(
            [(11, 10, 9, 0 if v > 0 else 103, 100, 100)[i % 6] for i, v in enumerate(x)], float
        ),
    ),
}
Form = Literal["plain", "shuffled", "sanitized", "vetted", "counted", "widened"]


@pytest.fixture(scope="module")
def library() -> Library:
    text = "".join(_SIGNATURE.format(n) + body + "\n}" for n, (body, _) in _KERNELS.items())
    return simulator.compile(_HEAD + text)


@pytest.mark.parametrize("form", ["plain", "shuffled", "sanitized", "vetted", "counted", "widened"])
@pytest.mark.parametrize("name", _KERNELS)
def test_a_kernel_computes_the_same_in_every_form(
    library: Library, name: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    for build, is_asked in (("WIDE", form == "widened"), ("VETTED", form == "vetted")):
        for threshold in (f"{build}_THREADS", f"{build}_WAITS"):
            monkeypatch.setattr(compiler, threshold, 0 if is_asked else sys.maxsize)
    y = np.full(_THREADS, np.nan, np.float32)

    outcome = library.kernel(name).launch(
        [_X.copy(), y],
        grid=(_THREADS, 1, 1),
        threadgroup=(64, 1, 1),
        sanitize=form in ("sanitized", "vetted"),
        count=form == "counted",
        order_seed=5 if form == "shuffled" else 0,
    )

    assert outcome.reports == ()
    np.testing.assert_allclose(y, _KERNELS[name][1](_X), rtol=1e-4, atol=1e-4)
