#include <metal_stdlib>
using namespace metal;
#define GLOBAL device
#define LOCAL threadgroup
#define CONST constant constexpr const
#define INLINE static inline __attribute__((always_inline))
#define RESTRICT __restrict
#define KERNEL kernel
CONST int kN = 3;
INLINE float f(GLOBAL const float* RESTRICT p, LOCAL float* s) { s[0] = p[0]; return s[0] * kN; }
KERNEL void k(GLOBAL const float* x [[buffer(0)]], GLOBAL float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { LOCAL float s[2][2]; LOCAL float* p = &s[1][0]; y[i] = f(x, p); }
