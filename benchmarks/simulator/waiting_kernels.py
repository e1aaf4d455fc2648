"""Kernels that wait often in small launches: sorts, a scan, attention."""

_HEAD = """#include <metal_stdlib>
using namespace metal;
"""

BITONIC_SORT = f"""{_HEAD}
// 4096 keys a threadgroup of 1024; 78 exchanges, a barrier after each.
kernel void bitonic_sort(const device uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
                         uint group [[threadgroup_position_in_grid]],
                         uint l [[thread_index_in_threadgroup]]) {{
  threadgroup uint keys[4096];
  for (uint k = l; k < 4096; k += 1024) keys[k] = x[group * 4096 + k];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint size = 2; size <= 4096; size <<= 1)
    for (uint stride = size >> 1; stride > 0; stride >>= 1) {{
      for (uint k = l; k < 2048; k += 1024) {{
        uint a = 2 * k - (k & (stride - 1)), b = a + stride;
        bool rises = (a & size) == 0;
        uint p = keys[a], q = keys[b];
        if ((p > q) == rises) {{
          keys[a] = q;
          keys[b] = p;
        }}
      }}
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
  for (uint k = l; k < 4096; k += 1024) y[group * 4096 + k] = keys[k];
}}
"""

RADIX_SORT = f"""{_HEAD}
// 4096 keys a threadgroup of 256, 16 each; a bit at a time, split by a scan.
kernel void radix_sort(const device uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
                       uint group [[threadgroup_position_in_grid]],
                       uint l [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]]) {{
  threadgroup uint keys[4096], sums[8];
  uint own[16];
  for (uint k = 0; k < 16; k++) own[k] = x[group * 4096 + l * 16 + k];
  for (uint bit = 0; bit < 32; bit++) {{
    uint zeros = 0;
    for (uint k = 0; k < 16; k++) zeros += (own[k] >> bit & 1) == 0;
    uint before = simd_prefix_exclusive_sum(zeros);
    if (lane == 31) sums[simdgroup] = before + zeros;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint all = 0;
    for (uint s = 0; s < 8; s++) {{
      before += s < simdgroup ? sums[s] : 0;
      all += sums[s];
    }}
    uint zero = before, one = all + l * 16 - before;
    for (uint k = 0; k < 16; k++) keys[(own[k] >> bit & 1) == 0 ? zero++ : one++] = own[k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k++) own[k] = keys[l * 16 + k];
  }}
  for (uint k = 0; k < 16; k++) y[group * 4096 + l * 16 + k] = own[k];
}}
"""

SCAN = f"""{_HEAD}
// 1024 elements a threadgroup of 256, in two steps of prefix sums.
kernel void scan(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                 uint simdgroup [[simdgroup_index_in_threadgroup]]) {{
  threadgroup float sums[8];
  float v[4], sum = 0;
  for (uint k = 0; k < 4; k++) v[k] = sum += x[i * 4 + k];
  float before = simd_prefix_exclusive_sum(sum);
  if (lane == 31) sums[simdgroup] = before + sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup == 0) {{
    float s = lane < 8 ? sums[lane] : 0;
    s = simd_prefix_exclusive_sum(s);
    if (lane < 8) sums[lane] = s;
  }}
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < 4; k++) y[i * 4 + k] = v[k] + before + sums[simdgroup];
}}
"""

ATTENTION = f"""{_HEAD}
// 64 rows of queries against n keys, of 64 elements: a simdgroup for each row, online softmax.
kernel void attention(const device float* q [[buffer(0)]], const device float* keys [[buffer(1)]],
                      const device float* values [[buffer(2)]], device float* y [[buffer(3)]],
                      constant uint& n [[buffer(4)]], uint lane [[thread_index_in_simdgroup]],
                      uint row [[threadgroup_position_in_grid]]) {{
  float2 own = *(const device float2*)(q + row * 64 + lane * 2) * 0.125f;
  float high = -INFINITY, total = 0;
  float2 sum = 0;
  for (uint k = 0; k < n; k++) {{
    float score = simd_sum(dot(own, *(const device float2*)(keys + k * 64 + lane * 2)));
    float now = max(high, score), scale = exp(high - now), weight = exp(score - now);
    total = total * scale + weight;
    sum = sum * scale + weight * *(const device float2*)(values + k * 64 + lane * 2);
    high = now;
  }}
  *(device float2*)(y + row * 64 + lane * 2) = sum / total;
}}
"""
