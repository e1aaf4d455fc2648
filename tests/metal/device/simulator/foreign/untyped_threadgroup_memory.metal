#include <metal_stdlib>
using namespace metal;
kernel void k(device float* y [[buffer(0)]], threadgroup uchar* raw [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) { threadgroup float* s = (threadgroup float*)raw; threadgroup half4* h = reinterpret_cast<threadgroup half4*>(raw + 128); s[i] = i; h[i] = half4(i); threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[i] + h[i].w; }
