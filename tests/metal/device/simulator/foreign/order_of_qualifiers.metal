#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* const x [[buffer(0)]], float device* y [[buffer(1)]], constant const uint* n [[buffer(2)]], uint const i [[thread_position_in_grid]]) { const device float* const p = x; device float* const q = y, *r = y; float constant* c = (float constant*)n; device float4* v4 = (device float4*)(y); const thread float* z; float loc = 1; z = &loc; thread float (*arr)[1] = (thread float (*)[1])&loc; (void)c; (void)v4; *(q + i) = *p + r[i] * 0 + *z + (*arr)[0]; }
