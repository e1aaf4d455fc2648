#include <metal_stdlib>
using namespace metal;
kernel void k(device int64_t* y [[buffer(0)]], device const char4* c [[buffer(1)]], device const uchar* u [[buffer(2)]], uint i [[thread_position_in_grid]]) { long a = 1L << 40; ulong b = 5ul; size_t n = sizeof(float3); ptrdiff_t d = &u[3] - u; int4 w = int4(c[i]); short s = (short)w.x; y[i] = a + (long)b + n + d + s + dot(float4(w), float4(1)) + min((int)s, 3) + abs(-4) + u[i] / 3u % 2u + mul24(3, 4) + uint64_t(1) + INT_MAX * 0L + as_type<int>(c[i]) * 0 + select(1, 2, true) + ctz(8u) + insert_bits(0u, 3u, 1, 2); }
