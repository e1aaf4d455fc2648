"""Idioms of Metal: each runs plainly, shuffled, sanitized and counted, and agrees."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.element import Argument

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_X = np.random.default_rng(5).standard_normal(64).astype(np.float32)
_Z = _X.astype(np.float64)
_N = np.arange(64)


def _agrees(
    text: str,
    buffers: Sequence[Argument],
    output: int,
    expected: Array,
    *,
    grid: int,
    threadgroup: int,
    tolerance: float = 1e-4,
) -> None:
    kernel = simulator.compile(_HEAD + text).kernel("k")
    for seed, sanitize, count in ((0, False, False), (7, False, False), (0, True, False),
                                  (0, False, True)):  # fmt: skip
        given = [b.copy() if isinstance(b, np.ndarray) else b for b in buffers]
        outcome = kernel.launch(
            given,
            grid=(grid, 1, 1),
            threadgroup=(threadgroup, 1, 1),
            sanitize=sanitize,
            count=count,
            order_seed=seed,
        )
        assert not outcome.reports
        found = np.asarray(given[output], np.float64)
        assert np.allclose(found, expected.astype(np.float64), rtol=tolerance, atol=tolerance)


_SPACES = """constant float C[] = {1, 5};
float f(const device float* p) { return *p; }
float f(const threadgroup float* p) { return 2 * *p; }
float f(constant float* p) { return 3 * *p; }
float f(const thread float* p) { return 4 * *p; }"""
_SFINAE = """template <typename T, enable_if_t<is_floating_point_v<T>, bool> = true>
float widened(T v) { return v; }
template <typename T, enable_if_t<is_integral_v<T>, bool> = true>
float widened(T v) { return 10 * v; }"""
_CRTP = """template <typename D> struct Base {
  float run(float v) const thread { return static_cast<const thread D*>(this)->f(v) + 1; }
};
struct Twice : Base<Twice> { float f(float v) const thread { return 2 * v; } };"""
_TABLE = """struct Table {
  int v[8];
  constexpr Table() : v() { for (int j = 0; j < 8; ++j) v[j] = j * j; }
};
constant constexpr Table TABLE = Table();"""
_VARIADIC = "template <typename... A> float total(A... a) { return (0.0f + ... + float(a)); }"
_FACTORIAL = """template <int N> struct Factorial { enum { value = N * Factorial<N - 1>::value }; };
template <> struct Factorial<0> { enum { value = 1 }; };"""
_COMPLEX = """struct complex { float re, im; complex(float r, float i = 0) : re(r), im(i) {} };
complex operator*(complex a, complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}"""
_TINT = """template <typename T, int N, int M>
inline vec<T, M> operator*(matrix<T, N, M> l, packed_vec<T, N> r) { return l * vec<T, N>(r); }"""
_SIMD_TYPE = """template <typename T>
constexpr constant bool is_simd_t = __is_valid_simdgroup_type<T>::value;"""

_EXPRESSIONS: dict[str, tuple[str, str, Array]] = {
    "crtp": (_CRTP, "Twice t; y[i] = t.run(v);", 2 * _Z + 1),
    "address spaces": (
        _SPACES,
        (
            "threadgroup float t[32]; t[i % 32] = v;"
            "threadgroup_barrier(mem_flags::mem_threadgroup);"
            "y[i] = f(&x[i]) + f(&t[i % 32]) + f(&C[1]) + f(&v);"
        ),
        7 * _Z + 15,
    ),
    "sfinae": (_SFINAE, "y[i] = widened(v) + widened(short(3));", _Z + 30),
    "constant table": (_TABLE, "y[i] = v + TABLE.v[i % 8];", _Z + (_N % 8) ** 2),
    "variadic": (_VARIADIC, "y[i] = total(v, 1, 2u, half(0.5), short(3));", _Z + 6.5),
    "recursion of templates": (_FACTORIAL, "y[i] = v * Factorial<5>::value;", 120 * _Z),
    "operators": (_COMPLEX, "complex a(v, 1); y[i] = (a * a).re;", _Z * _Z - 1),
    "lambda": (
        "",
        (
            "float s = 2; auto f = [&s, v](float z) mutable { s += z; return s * v; };"
            "y[i] = f(1) + f(1) + s;"
        ),
        7 * _Z + 4,
    ),
    "generic lambda": (
        "",
        "auto f = [](auto a, auto b) { return a * b; }; y[i] = f(v, 2) + f(2.0h, 3.0h);",
        2 * _Z + 6,
    ),
    "structured binding": (
        "struct P { float a, b; }; P split(float v) { return {v, 2 * v}; }",
        "auto [a, b] = split(v); if (float c = a + b; c > 0) y[i] = c; else y[i] = -c;",
        np.abs(3 * _Z),
    ),
    "union": ("", "union { float f; uint u; } t; t.f = v; t.u ^= 0x80000000u; y[i] = t.f;", -_Z),
    "swizzles": (
        "",
        (
            "float4 a(v, v + 1, v + 2, v + 3); a.xz = a.zx; a.yw *= 2; a.rgb += float3(1, 2, 3);"
            "y[i] = dot(a.wzyx, float4(1, 2, 3, 4));"
        ),
        14 * _Z + 36,
    ),
    "frexp": ("", "int e; float m = frexp(v, e); y[i] = ldexp(m, e + 1);", 2 * _Z),
    "modf": ("", "float w; float f = modf(v * 10, w); y[i] = f + w;", 10 * _Z),
    "fields of bits": (
        "",
        "y[i] = float(extract_bits(as_type<uint>(v), 23, 8)) - 127;",
        np.floor(np.log2(np.abs(_Z))),
    ),
    "normalised bytes": (
        "",
        (
            "uint p = pack_float_to_unorm4x8(saturate(float4(v))); "
            "y[i] = unpack_unorm4x8_to_float(p).x;"
        ),
        np.round(np.clip(_Z, 0, 1) * 255) / 255,
    ),
    "columns": (
        "",
        (
            "float2x4 m = float2x4(float4(v), float4(2)); m[1].yz = float2(v);"
            "float4 q = m * float2(1, 2); y[i] = q.y + m[0][3];"
        ),
        4 * _Z,
    ),
    "quads": (
        "",
        "y[i] = quad_sum(v) + quad_shuffle_xor(v, 1);",
        np.repeat(_Z.reshape(-1, 4).sum(1), 4) + _Z[_N ^ 1],
    ),
    "ballot": (
        "",
        "y[i] = popcount(uint(simd_vote::vote_t(simd_ballot(v > 0))));",
        np.repeat((_Z.reshape(2, 32) > 0).sum(1), 32),
    ),
    "prefix in a simdgroup": (
        "",
        "y[i] = simd_prefix_exclusive_sum(v);",
        (np.cumsum(_Z.reshape(2, 32), 1) - _Z.reshape(2, 32)).ravel(),
    ),
    "packed vector and matrix": (
        _TINT,
        (
            "packed_float3 p = packed_float3(v, 1, 2); p = float3x3(2.0f) * p; p += 1; "
            "y[i] = p.x + p[2];"
        ),
        2 * _Z + 6,
    ),
    "assignments of packed vectors": (
        "",
        (
            "packed_uint3 p = packed_uint3(i); p <<= 2; p |= 1; p ^= uint3(1); p %= 50; ++p; p--;"
            "p >>= uint3(0, 1, 2); y[i] = p.x + 100 * p.y + 10000 * p.z;"
        ),
        (4 * _N % 50) + 100 * (4 * _N % 50 >> 1) + 10000 * (4 * _N % 50 >> 2),
    ),
    "what simdgroups take": (
        _SIMD_TYPE,
        (
            "y[i] = is_simd_t<float> + 2 * is_simd_t<long> + 4 * is_simd_t<half2> +"
            "8 * is_simd_t<packed_float2>;"
        ),
        np.full(64, 5.0),
    ),
}


@pytest.mark.parametrize("name", _EXPRESSIONS)
@pytest.mark.sampled(12)
def test_an_idiom_in_an_expression(name: str) -> None:
    before, statement, expected = _EXPRESSIONS[name]
    text = (
        f"{before}\nkernel void k(device const float* x [[buffer(0)]], "
        "device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {\n"
        f"float v = x[i];\n{statement}\n}}\n"
    )
    _agrees(text, [_X, np.zeros_like(_X)], 1, expected, grid=64, threadgroup=32)


_EDIT_DISTANCE = """
kernel void k(device const uchar* a [[buffer(0)]], device const uchar* b [[buffer(1)]],
              device int* d [[buffer(2)]], constant int& n [[buffer(3)]],
              uint l [[thread_index_in_threadgroup]]) {
  threadgroup int diagonal[3][32];
  int i = l;
  for (int s = 0; s <= 2 * n; ++s) {
    threadgroup int* now = diagonal[s % 3];
    const threadgroup int* last = diagonal[(s + 2) % 3];
    const threadgroup int* old = diagonal[(s + 1) % 3];
    int j = s - i;
    if (i <= n && j >= 0 && j <= n) {
      int v = i + j;
      if (i > 0 && j > 0)
        v = min3(last[i - 1] + 1, last[i] + 1, old[i - 1] + int(a[i - 1] != b[j - 1]));
      now[i] = v;
      d[i * (n + 1) + j] = v;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}"""


def test_dynamic_programming_along_diagonals() -> None:
    a, b = np.random.default_rng(1).integers(0, 4, (2, 24)).astype(np.uint8)
    expected = np.add.outer(np.arange(25), np.arange(25))
    for i in range(1, 25):
        for j in range(1, 25):
            changed = expected[i - 1, j - 1] + int(a[i - 1] != b[j - 1])
            expected[i, j] = min(expected[i - 1, j] + 1, expected[i, j - 1] + 1, changed)
    made = np.zeros((25, 25), np.int32)
    _agrees(_EDIT_DISTANCE, [a, b, made, 24], 2, expected, grid=32, threadgroup=32)


_HASH_TABLE = """
uint hash(uint k) { k ^= k >> 16; k *= 0x85ebca6bu; k ^= k >> 13; return k; }
kernel void k(device const uint* keys [[buffer(0)]], device atomic_uint* table [[buffer(1)]],
              device uint* found [[buffer(2)]], uint i [[thread_position_in_threadgroup]]) {
  uint slot = hash(keys[i]) & 255;
  while (true) {
    uint expected = 0;
    if (atomic_compare_exchange_weak_explicit(&table[slot], &expected, keys[i],
                                              memory_order_relaxed, memory_order_relaxed)) break;
    if (expected != 0) slot = (slot + 1) & 255;
  }
  threadgroup_barrier(mem_flags::mem_device);
  slot = hash(keys[i]) & 255;
  for (uint n = 0; n < 256; ++n, slot = (slot + 1) & 255)
    if (atomic_load_explicit(&table[slot], memory_order_relaxed) == keys[i]) break;
  found[i] = atomic_load_explicit(&table[slot], memory_order_relaxed);
}"""


def test_a_hash_table_of_atomics() -> None:
    keys = (np.random.default_rng(2).permutation(4000)[:160] + 1).astype(np.uint32)
    buffers = [keys, np.zeros(256, np.uint32), np.zeros(160, np.uint32)]
    _agrees(_HASH_TABLE, buffers, 2, keys, grid=160, threadgroup=160)


_SCATTER = """kernel void k(device const int* at [[buffer(0)]], device const int* w [[buffer(1)]],
    device atomic_int* y [[buffer(2)]], uint i [[thread_position_in_grid]]) {{
  atomic_fetch_{}_explicit(y + at[i], w[i], memory_order_relaxed);
}}"""


@pytest.mark.parametrize(
    ("operation", "start", "reference"),
    [
        ("add", 0, np.add), ("max", -100, np.maximum), ("min", 100, np.minimum),
        ("or", 0, np.bitwise_or), ("xor", 0, np.bitwise_xor), ("and", -1, np.bitwise_and),
    ],
)  # fmt: skip
def test_a_scatter_of_atomics(operation: str, start: int, reference: Callable[..., object]) -> None:
    rng = np.random.default_rng(3)
    at, w = rng.integers(0, 30, 600).astype(np.int32), rng.integers(-5, 9, 600).astype(np.int32)
    made, expected = np.full(30, start, np.int32), np.full(30, start, np.int32)
    reference.at(expected, at, w)  # type: ignore[attr-defined]
    _agrees(_SCATTER.format(operation), [at, w, made], 2, expected, grid=600, threadgroup=60)


_FFT = """
inline float2 product(float2 a, float2 b) { return float2(a.x * b.x - a.y * b.y, dot(a, b.yx)); }
kernel void k(device const float2* x [[buffer(0)]], device float2* y [[buffer(1)]],
              uint l [[thread_index_in_threadgroup]], uint h [[threads_per_threadgroup]]) {
  threadgroup float2 s[2][256];
  threadgroup float2* from = s[0];
  threadgroup float2* to = s[1];
  from[l] = x[l]; from[l + h] = x[l + h];
  for (uint n = 1; n < 2 * h; n *= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float c, sine = sincos(-M_PI_F * float(l % n) / float(n), c);
    float2 a = from[l], b = product(from[l + h], float2(c, sine));
    uint o = l / n * n * 2 + l % n;
    to[o] = a + b; to[o + n] = a - b;
    threadgroup float2* t = from; from = to; to = t;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[l] = from[l]; y[l + h] = from[l + h];
}"""


def test_an_fft_in_threadgroup_memory() -> None:
    parts = np.random.default_rng(4).standard_normal((256, 2))
    expected = np.fft.fft(parts[:, 0] + 1j * parts[:, 1]).view(np.float64).reshape(256, 2)
    buffers = [parts.astype(np.float32), np.zeros((256, 2), np.float32)]
    _agrees(_FFT, buffers, 1, expected, grid=128, threadgroup=128, tolerance=2e-3)
