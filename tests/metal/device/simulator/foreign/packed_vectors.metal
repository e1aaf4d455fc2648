#include <metal_stdlib>
using namespace metal;
struct V { packed_float3 p; float w; };
kernel void k(device const V* x [[buffer(0)]], device packed_float3* y [[buffer(1)]], device packed_half4* h [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  float3 p = x[i].p; p.yz += x[i].w; y[i] = p * 2; y[i].x = 1; packed_float3 q = {1, 2, 3}; y[i] = y[i] + q; h[i] = packed_half4(half4(p.xyzz)); float3 z = float3(x[i].p) - q; y[i][1] = z[2];
}
