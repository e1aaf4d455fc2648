#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]], uint q [[thread_index_in_quadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  float v = x[i]; float s = quad_sum(v) + quad_shuffle_xor(v, 1) + quad_broadcast(v, 2) + quad_shuffle_down(v, 0);
  simd_vote b = simd_ballot(v > 0.5f); s += popcount((ulong)(uint64_t)b) + simd_prefix_exclusive_sum(1.0f) + simd_shuffle_and_fill_up(v, 0.0f, 1) * 0 + simd_shuffle_rotate_up(v, 1) * 0 + simd_is_first() + simd_min(v) + simd_or((uint)q) + simd_active_threads_mask().all() * 0;
  y[i] = s + (simd_any(v > 2) ? 1 : 0) + simd_product(1.0f);
}
