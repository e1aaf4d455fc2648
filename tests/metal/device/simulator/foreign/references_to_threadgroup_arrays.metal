#include <metal_stdlib>
using namespace metal;
template <int N> float total(threadgroup const float (&s)[N]) { float t = 0; for (int i = 0; i < N; i++) t += s[i]; return t; }
static inline void fill(threadgroup float (*rows)[8], uint r, float v) { for (int j = 0; j < 8; j++) rows[r][j] = v; }
kernel void k(device float* y [[buffer(0)]], uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
  threadgroup float s[32]; threadgroup float m[4][8];
  threadgroup float (&r)[32] = s;
  r[t] = t; if (t < 4) fill(m, t, t * 2.0);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[g * 32 + t] = total(s) + m[t & 3][t & 7];
}
