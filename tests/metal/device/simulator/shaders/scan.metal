#include <metal_stdlib>
using namespace metal;
template <typename T> struct LoadStore { static constexpr int N = 4; T v[N]; METAL_FUNC thread T& operator[](int i) thread { return v[i]; } METAL_FUNC T operator[](int i) const thread { return v[i]; } };
template <typename T> METAL_FUNC void load_striped(thread LoadStore<T>& r, const device T* p, uint n, uint i) { for (ushort k = 0; k < LoadStore<T>::N; k++) r[k] = i * 4 + k < n ? p[i * 4 + k] : T(); }
template <class T, class Op> METAL_FUNC T block_scan(T v, Op op, threadgroup T* scratch, ushort lane, ushort sg, ushort sgs) {
  for (ushort d = 1; d < 32; d <<= 1) { T o = simd_shuffle_up(v, d); if (lane >= d) v = op(o, v); }
  if (lane == 31) scratch[sg] = v;
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  T carry = T(); bool any = false;
  for (ushort s = 0; s < sgs; ++s) { if (s >= sg) break; carry = any ? op(carry, scratch[s]) : scratch[s]; any = true; }
  return any ? op(carry, v) : v;
}
struct Plus { template <class T> T operator()(T a, T b) const { return a + b; } };
kernel void scan_tiles(const device int* x [[buffer(0)]], device int* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]], ushort sg [[simdgroup_index_in_threadgroup]], ushort sgs [[simdgroups_per_threadgroup]], threadgroup int* scratch [[threadgroup(0)]]) {
  LoadStore<int> r; load_striped(r, x, n, i);
  for (int k = 1; k < r.N; ++k) r[k] += r[k - 1];
  int inclusive = block_scan(r[3], Plus{}, scratch, lane, sg, sgs);
  for (int k = 0; k < r.N; ++k) if (i * 4 + k < n) y[i * 4 + k] = r[k] + inclusive - r[3];
}
