#include <metal_stdlib>
using namespace metal;
kernel void k(device const uint* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  uint u = x[i]; half2 h = as_type<half2>(u); uchar4 c = as_type<uchar4>(u); ushort2 s = as_type<ushort2>(h); float f = as_type<float>(u & 0x7f7fffff); bfloat b = as_type<bfloat>(ushort(u >> 16));
  y[i] = float(h.x) * 0 + c.w + s.x + isnan(f) + extract_bits(u, 3, 4) + popcount(u) + clz(u) + reverse_bits(u) * 0 + (float)b * 0;
}
