#include <metal_stdlib>
#include <metal_array>
using namespace metal;
struct Args { array<float, 4> w; uint n; };
kernel void k(constant Args& a [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { array<float2, 3> v = {{ float2(1), float2(2), float2(3) }}; float s = 0; for (size_t j = 0; j < a.w.size(); j++) s += a.w[j]; y[i] = s + v[i % 3].x + a.n; }
