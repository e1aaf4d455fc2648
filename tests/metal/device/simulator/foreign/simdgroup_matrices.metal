#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
kernel void k(device const half* a [[buffer(0)]], device const half* b [[buffer(1)]], device float* c [[buffer(2)]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float s[8][8];
  simdgroup_half8x8 ma, mb; simdgroup_float8x8 mc = make_filled_simdgroup_matrix<float, 8, 8>(0.f); simdgroup_float8x8 md = simdgroup_float8x8(1.0f);
  for (int k0 = 0; k0 < 16; k0 += 8) { simdgroup_load(ma, a + k0, 16); simdgroup_load(mb, b + k0 * 8, 8, ulong2(0, 0), false); simdgroup_multiply_accumulate(mc, ma, mb, mc); }
  simdgroup_multiply(md, ma, mb);
  simdgroup_store(mc, &s[0][0], 8); simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = lane; j < 64; j += 32) c[j] = s[j / 8][j % 8];
  mc.thread_elements()[0] *= 2;
  auto e = mc.thread_elements(); c[64 + lane] = e[0] * 0;
}
