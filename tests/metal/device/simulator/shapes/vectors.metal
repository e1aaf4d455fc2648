#include <metal_stdlib>
using namespace metal;

// matrices
kernel void matrices(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float2x3 m = float2x3(float3(1, 2, 3), float3(x[i], 5, 6));
  float3 v = m * float2(1, 2);
  float2 w = float3(1, 0, 1) * m;
  float3x2 t = transpose(m);
  float3x3 p = m * t;
  float4x4 d(2.0f);
  d[3] = float4(1, 2, 3, 4);
  float2x2 q = {{1, 2}, {3, x[i]}};
  q += q;
  half3x3 h(1.0h);
  m[1].z -= 1;
  m[0][2] = 9;
  y[i] = v.x + w.y + p[0][0] + determinant(q) + (d * float4(1)).w + float(h[2][2]) + m[1][2] + m[0].z
      + t[0].y;
}

// swizzled assignments
kernel void swizzled_assignments(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float4 v = float4(x[i], 2, 3, 4);
  v.zx = v.xy;
  v.yw += float2(1, 2);
  v.rgb = v.bgr;
  v.xy *= 2.0f;
  int3 n = int3(1, 2, 3);
  n.zyx = n;
  n.x <<= 2;
  v.w = -v.w;
  float2 t = v.wz;
  t.yx = t;
  y[i] = v.x * 1000 + v.y * 100 + v.z + v.w + n.x + t.x;
}

// ternaries of vectors
kernel void ternaries_of_vectors(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  bool c = i & 1;
  float3 v = c ? float3(1, 2, x[i]) : float3(0);
  float2 w = c ? v.xy : v.yz;
  half2 h = c ? half2(1) : half2(2);
  (c ? v.x : v.y) = 7;
  float4 s = select(float4(1), float4(x[i]), bool4(true, false, c, !c));
  y[i] = v.z + w.y + float(h.x) + v.x + v.y * 10 + s.x + s.z * 100 + s.w * 1000;
}

// vector conversions
kernel void vector_conversions(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float3 f = float3(x[i], -2.7f, 3.9f);
  int3 n = int3(f);
  uint4 u = uint4(uchar4(1, 2, 3, 255));
  half3 h = half3(f);
  float4 w = float4(f.xy, n.z, 1);
  bool3 c = bool3(n);
  char2 k = char2(short2(300, -1));
  float2 a = float2(int2(7, 8) / 2), z = float2(true, false);
  y[i] = n.x + n.y + n.z + u.w + float(h.y) + w.z + c.x + k.x + k.y + a.x + a.y + z.x;
}

// bool vectors
kernel void bool_vectors(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float4 a = float4(1, x[i], 3, 4);
  bool4 b = a > 2;
  bool4 c = !b;
  bool4 d = b && (a < 4);
  bool4 e = b || c;
  bool2 s = b.xy;
  uint n = uint(d.x) + uint(d.y) * 2 + uint(d.z) * 4 + uint(d.w) * 8;
  bool2 o = s | bool2(true, false);
  y[i] = n + (any(b) ? 100 : 0) + (all(e) ? 1000 : 0) + (all(b) ? 1 : 0) + c.x + o.x + (isnan(a / 0).x
      ? 7 : 0) + (isinf(a) == bool4(false)).y;
}

// vector arithmetic
kernel void vector_arithmetic(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  int4 n = int4(i, 2, 3, 4);
  n <<= 1;
  n ^= int4(1);
  n++;
  --n;
  n %= 5;
  uint3 u = ~uint3(0) >> uint3(28, 30, 31);
  float3 f = -float3(1, 2, 3) / 2;
  f *= f;
  f += 1;
  bool3 g = f >= 2 ;
  bool b = all(n == n.xyzw) && any(g != bool3(false));
  int2 m = int2(7, -7) / int2(2) + int2(7, -7) % 3;
  short4 sh = short4(1) << short4(0, 1, 2, 3);
  half2 h = half2(1, 2) * 3;
  uchar4 uc = uchar4(250) + uchar4(10);
  ushort2 us = ushort2(1, 2) & ushort2(3);
  float4 mixed = float4(1, float2(2, 3), 4);
  mixed[i & 3] = 9;
  n[3] += 1;
  y[i] = n.x + n.y + n.w + u.x + u.y + u.z + f.x + f.y + f.z + b + m.x * 10 + m.y + sh.w + float(h.y)
      + uc.x + us.y + mixed.x + mixed.w + dot(float4(1), mixed);
}

// casts of all kinds
kernel void casts_of_all_kinds(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float4 a = (float4)(x[i]), b = static_cast<float4>(2), c = float4{1, 2, 3, 4}, d(a.xy, 5, 6), e =
      {1, 2, 3, 4};
  uint u = (uint)x[i];
  thread uint& bits = reinterpret_cast<thread uint&>(a.x);
  float x1 = 1;
  uint v = *(thread uint*)&x1 >> 23;
  half h = (half)u;
  const thread float* pf = (const thread float*)&e;
  int n = int{3};
  device uint* yu = (device uint*)y;
  yu[i] = 0;
  threadgroup float4 s4[2];
  if (i < 2) s4[i] = float4(i, 1, 2, 3);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const threadgroup float* sf = (const threadgroup float*)s4;
  bits ^= 0x80000000u;
  y[i] += a.x + b.y + c.z + d.w + pf[2] + float(h) + n + v + sf[4] + sf[7] + float(const_cast<const
      thread float4&>(e).w);
}

// half and bfloat
kernel void half_and_bfloat(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  bfloat b = bfloat(x[i] * 1.01f);
  half h = half(x[i] / 3);
  float f = float(b) + h;
  bfloat c = b * 2;
  half4 v = half4(h);
  v += half(1);
  float4 w = float4(v) * float(b);
  bfloat2 p = bfloat2(float2(x[i], 0.5f));
  float q = p.x * float(h) + p.y;
  h *= 2;
  c += bfloat(1.0f);
  y[i] = f + float(c) + w.x + q + float(h);
}

// columns of matrices in braces
namespace of_columns_in_braces {
static constant float3x3 TURN { {0, 1, 0}, {0, 0, 1}, {-1, 0, 0}, };
constant half2x2 HALVES = {{1, 2}, {3, 4}};
static float2x3 made(float v) { return {{v, 1, 2}, {3, 4, 5}}; }
struct Pose {
  float3x3 r;
  float3 t;
};
}
kernel void columns_in_braces(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]]) {
  using namespace of_columns_in_braces;
  float2x2 q = {{1, 2}, {3, x[i]}}, w = {float2(1), {2, 3}};
  Pose p = {{{1, 0, 0}, {0, 2, 0}, {0, 0, 3}}, {1, 2, 3}};
  float4x4 d = {{x[i], 0, 0, 0}, {0, x[i], 0, 0}, {0, 0, 1, 0}, {1, 2, 3, 1}};
  y[i] = q[1].y + (TURN * float3(1, 2, 3)).x + float(HALVES[1].x) + made(x[i])[0].x
      + (d * float4(1)).y + p.r[2].z + p.t.y + w[1].y + float2x2(1, 2, 3, 4)[1][1];
}
