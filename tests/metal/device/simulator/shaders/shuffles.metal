#include <metal_stdlib>
using namespace metal;
template<typename T, typename Op, ushort width = 32>
METAL_FUNC T warp_reduce(T value, Op combine) {
  #pragma clang loop unroll(full)
  for (ushort delta = width / 2; delta > 0; delta >>= 1) value = combine(value, simd_shuffle_down(value, delta));
  return simd_broadcast(value, 0);
}
struct add2 { float operator()(float a, float b) const { return a + b; } };
struct argmax_t { float v; uint i; };
static argmax_t better(argmax_t a, argmax_t b) { return (b.v > a.v || (b.v == a.v && b.i < a.i)) ? b : a; }
kernel void argmax_rows(device const float *x [[buffer(0)]], device uint *y [[buffer(1)]], constant uint &n [[buffer(2)]], uint row [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  argmax_t best = { -INFINITY, 0xFFFFFFFFu };
  for (uint k = lane; k < n; k += 32) best = better(best, argmax_t{x[row * n + k], k});
  for (ushort off = 16; off; off /= 2) { argmax_t other; other.v = simd_shuffle_xor(best.v, off); other.i = simd_shuffle_xor(best.i, off); best = better(best, other); }
  if (lane == 0) y[row] = best.i;
}
kernel void dot_rows(device const float4 *a [[buffer(0)]], device const float4 *b [[buffer(1)]], device float *y [[buffer(2)]], uint2 tgp [[threadgroup_position_in_grid]], ushort tiitg [[thread_index_in_threadgroup]], ushort2 tpitg [[thread_position_in_threadgroup]], ushort tiisg [[thread_index_in_simdgroup]], ushort sgitg [[simdgroup_index_in_threadgroup]]) {
  float s = 0.f;
  for (int k = 0; k < 4; ++k) s += dot(a[tgp.x * 128 + k * 32 + tiisg], b[tgp.x * 128 + k * 32 + tiisg]);
  s = warp_reduce(s, add2());
  if (tiisg == 0) y[tgp.x] = s + 0 * (tiitg + tpitg.x + sgitg);
}
