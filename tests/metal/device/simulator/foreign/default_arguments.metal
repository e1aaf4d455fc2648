#include <metal_stdlib>
using namespace metal;
struct O { bool a = true; int n = 3; }; float f(float x, O o = {}, float s = 1.0) { return o.a ? x * s + o.n : 0; }
constant float3 kW(0.2126, 0.7152, 0.0722); constant float2x2 kM = float2x2(1, 2, 3, 4);
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { float4 v = { 1, 2, 3, 4 }; v.xy = v.yx; v.rgb *= 2; v[2]++; --v.w; y[i] = f(i) + dot(v.xyz, kW) + kM[1].x + (i > 3 ? v.x : (i < 2 ? v.y : v.zw.y)); float a[2][2] = { { v.x * v.y, 1 }, { 2, int(v.z) & 0 ? 1.f : 2.f } }; y[i] += a[1][1]; }
