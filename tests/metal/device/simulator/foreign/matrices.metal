#include <metal_stdlib>
using namespace metal;
kernel void k(device const float4x4* m [[buffer(0)]], device float4* y [[buffer(1)]], constant float3x3& r [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  float4x4 a = m[i]; a[3] = float4(1, 2, 3, 1); float4x4 t = transpose(a) * 2.0f; float2x2 b(1, 2, 3, 4); float3 v = r * float3(1, 2, 3); half2x2 h = half2x2(half2(1), half2(2)); float2x3 w = float2x3(float3(1), float3(2));
  y[i] = t * a[0] + a.columns[1] * determinant(b) + float4(v, h[0].x) + float4((w * float2(1, 2)), 0) + float4x4(1.0f)[2];
}
