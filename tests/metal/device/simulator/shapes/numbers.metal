#include <metal_stdlib>
using namespace metal;

// as_type chains
kernel void as_type_chains(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  uint u = as_type<uint>(x[i]);
  float n = as_type<float>(u ^ 0x80000000u);
  uchar4 b = as_type<uchar4>(u);
  half2 h = as_type<half2>(u);
  ushort2 s = as_type<ushort2>(h);
  y[i] = n + b.w + float(s.y) - float(as_type<ushort>(half(1)));
}

// integer functions
kernel void integer_functions(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  uint u = i * 2654435761u;
  int n = int(i) - 20;
  ulong w = ulong(u) * u;
  float s = popcount(u) + clz(u | 1) + ctz(u | 256) + float(reverse_bits(i) >> 26) + rotate(i, 28u) %
      7 + extract_bits(u, 4, 6) + insert_bits(i, 3u, 1, 2);
  s += mulhi(u, 5u) + madhi(u, 3u, 7u) + absdiff(n, 5) + hadd(n, 4) + rhadd(n, 3) + addsat(uchar(250),
      uchar(i)) + subsat(char(-100), char(i)) + madsat(short(300), short(i), short(7)) + max3(n, 1, 2)
      + min3(n, 1, 2) + median3(n, 1, 9) + clamp(n, -3, 3) + abs(n);
  s += uint(w >> 60);
  y[i] = s;
}

// packs
kernel void packs(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  uint p = pack_float_to_unorm4x8(float4(0, 0.5f, 1, x[i] / 64));
  float4 u = unpack_unorm4x8_to_float(p);
  uint s = pack_float_to_snorm2x16(float2(-1, 0.25f));
  float2 t = unpack_snorm2x16_to_float(s);
  y[i] = rint(u.w * 255) + u.z + t.x + rint(t.y * 32767);
}

// mathematics with references
kernel void mathematics_with_references(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  int e;
  float m = frexp(x[i], e);
  float whole;
  float part = modf(x[i] * 1.25f, whole);
  float c;
  float s = sincos(0.0f, c);
  y[i] = ldexp(m, e) + whole + part + c + s + fract(x[i] / 4) + sign(-x[i]) + step(3.0f, x[i]) +
      mix(1.0f, 3.0f, 0.5f) + saturate(x[i] / 32) + clamp(x[i], 2.0f, 5.0f) + fmax3(x[i], 2, 3) +
      fmedian3(x[i], 2, 9) + copysign(2.0f, -1.0f) + trunc(-1.5f) + powr(2.0f, 3.0f) + exp10(0.0f) +
      fdim(3.0f, 1.0f);
}

// narrow integers
kernel void narrow_integers(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  ushort a = 65535;
  uchar b = 250;
  char c = -128;
  short d = short(40000);
  uchar e = b + 10;
  int f = b + 10;
  a += 2;
  c--;
  long g = long(i) << 40;
  ulong h = ~0ul >> (i & 63);
  uchar k = uchar(int(x[i]) * 5);
  y[i] = a + e + f + c + d + float(g >> 38) + popcount(h) + k + (-7 / 2) + (-7 % 3) + (uchar(200) >
      char(-1)) + (~b) + (b << 2);
}

// literals
kernel void literals(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  y[i] = 1.5h + 0x1p-3f + 1e2h + 0b101 + 1'000 + 'a' + 5ul + 7L + 0xFFu + .5f + 2.f + 1.0bf + 010 +
      (true ? 1 : 0) + (sizeof(1.0) == 4 ? 10 : 20) + (sizeof(1.0h) == 2) +
      float(numeric_limits<half>::max()) + (numeric_limits<int>::min() < 0) + (FLT_MAX > 1e38f) +
      INT_MAX / 0x40000000 + M_PI_F + HALF_MAX + (isinf(INFINITY) && isnan(NAN)) + USHRT_MAX +
      numeric_limits<uchar>::max();
}
