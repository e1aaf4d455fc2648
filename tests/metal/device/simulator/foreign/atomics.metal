#include <metal_stdlib>
using namespace metal;
kernel void k(device atomic_uint* c [[buffer(0)]], device atomic_float* f [[buffer(1)]], volatile device atomic_int* m [[buffer(2)]], uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint h[4][8]; threadgroup atomic_int best;
  if (t < 32) atomic_store_explicit(&h[t / 8][t % 8], 0, memory_order_relaxed);
  if (t == 0) atomic_store_explicit(&best, 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&h[t & 3][i & 7], 1u, memory_order_relaxed); atomic_fetch_max_explicit(&best, (int)i, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < 8) for (int j = 0; j < 4; j++) atomic_fetch_add_explicit(c + t, atomic_load_explicit(&h[j][t], memory_order_relaxed), memory_order_relaxed);
  atomic_fetch_add_explicit(f, 1.0f, memory_order_relaxed);
  int e = 0; while (!atomic_compare_exchange_weak_explicit(m, &e, e + 1, memory_order_relaxed, memory_order_relaxed)) {}
  atomic_fetch_max_explicit(m, atomic_load_explicit(&best, memory_order_relaxed), memory_order_relaxed);
}
