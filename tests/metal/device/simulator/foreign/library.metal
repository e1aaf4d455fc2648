#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float4 lo = numeric_limits<float>::lowest(); float v = x[i]; int e; float m = frexp(v, e); float ip; float fr = modf(v, ip); float c; float s = sincos(v, c); assert(i < 1000u);
  static_assert(vec_elements<float4>::value == 4, "");
  y[i] = m + e + fr + ip + s + c + clamp(v, 0.0f, 1.0f) + saturate(v) + mix(0.0f, v, 0.5f) + step(0.5f, v) + smoothstep(0.0f, 1.0f, v) + fma(v, 2.0f, 1.0f) + select(1.0f, 2.0f, v > 0.5f) + rsqrt(v + 1) + sign(v) + fract(v) + trunc(v) + rint(v) + round(v) + ldexp(v, 2) + powr(v + 1, 2.0f) + fmod(v, 0.7f) + copysign(1.0f, -v) + fdim(v, 1.0f) + length(float2(v)) + distance(float2(v), float2(0)) + normalize(float3(v + 1)).x + cross(float3(1, 0, 0), float3(0, 1, 0)).z + any(float2(v) > 2.0f) + all(bool2(true)) + max3(v, 1.0f, 2.0f) + min3(v, 1.0f, 2.0f) + median3(v, 1.0f, 2.0f) + exp10(v) + log2(v + 1) + sinh(v) + atan2(v, 1.0f) + absdiff(3, 5) + mulhi(3u, 5u) + mad24(3, 4, 5) + rotate(1u, 3u) + hadd(3, 5) + addsat(uchar(250), uchar(10)) + precise::exp(v) * 0 + fast::exp(v) * 0 + lo.x * 0 + simd_sum(0.0f) + nextafter(v, 2.0f) * 0 + tanpi(0.25f);
}
