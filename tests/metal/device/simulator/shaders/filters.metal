#include <metal_stdlib>
using namespace metal;
constant int kRadius [[function_constant(1)]];
constant bool kUseGaussian [[function_constant(2)]];
struct ImageParams { int width, height; int stride; float sigma; };
template <typename T> inline T fetch(const device T* src, constant ImageParams& p, int2 at) { at = clamp(at, int2(0), int2(p.width, p.height) - 1); return src[at.y * p.stride + at.x]; }
kernel void sobel(const device uchar4* src [[buffer(0)]], device uchar* dst [[buffer(1)]], constant ImageParams& p [[buffer(2)]], ushort2 gid [[thread_position_in_grid]]) {
  if (gid.x >= p.width || gid.y >= p.height) return;
  constexpr auto luma = float3(0.299, 0.587, 0.114);
  const float3x3 kx(float3(-1, 0, 1), float3(-2, 0, 2), float3(-1, 0, 1));
  const float3x3 ky = transpose(kx);
  float gx = 0, gy = 0;
  for (int j = -1; j <= 1; j++) for (int i = -1; i <= 1; i++) {
    float4 c = unpack_unorm4x8_to_float(as_type<uint>(fetch(src, p, int2(gid) + int2(i, j))));
    float l = dot(c.rgb, luma);
    gx += l * kx[j + 1][i + 1]; gy += l * ky[j + 1][i + 1];
  }
  dst[gid.y * p.stride + gid.x] = uchar(saturate(sqrt(gx * gx + gy * gy)) * 255.0f + 0.5f);
}
kernel void blur(const device half* src [[buffer(0)]], device half* dst [[buffer(1)]], constant ImageParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]], uint2 lid [[thread_position_in_threadgroup]], uint2 tg [[threads_per_threadgroup]], uint2 group [[threadgroup_position_in_grid]]) {
  constexpr int kTile = 16, kHalo = 4;
  threadgroup half tile[kTile + 2 * kHalo][kTile + 2 * kHalo + 1];
  int2 origin = int2(group * tg) - kHalo;
  for (int y = lid.y; y < kTile + 2 * kHalo; y += tg.y) for (int x = lid.x; x < kTile + 2 * kHalo; x += tg.x) tile[y][x] = fetch(src, p, origin + int2(x, y));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0, weight = 0;
  const int r = kRadius;
  for (int j = -r; j <= r; ++j) for (int i = -r; i <= r; ++i) {
    float w = kUseGaussian ? exp(-float(i * i + j * j) / (2 * p.sigma * p.sigma)) : 1;
    sum += w * tile[lid.y + kHalo + j][lid.x + kHalo + i]; weight += w;
  }
  if (all(int2(gid) < int2(p.width, p.height))) dst[gid.y * p.stride + gid.x] = half(sum / weight);
}
