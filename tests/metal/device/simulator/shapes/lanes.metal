#include <metal_stdlib>
using namespace metal;

// simd of all kinds
kernel void simd_of_all_kinds(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  uint u = i * 7 % 13;
  float v = x[i];
  float s = 0;
  s += simd_prefix_inclusive_sum(u);
  s += simd_prefix_exclusive_product(lane < 3 ? 2 : 1);
  s += simd_product(lane == 5 ? 3.0f : 1.0f);
  s += simd_min(int(u) - 5) + simd_max(half(u));
  s += simd_and(u | 8) + simd_or(u) + simd_xor(u);
  s += simd_broadcast(v, 3) + simd_broadcast_first(v) + simd_shuffle(v, ushort(31 - lane)) +
      simd_shuffle_xor(v, 5);
  s += simd_shuffle_rotate_up(v, 3) + simd_shuffle_rotate_down(v, 30);
  y[i] = s;
}

// simd votes
kernel void simd_votes(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  simd_vote b = simd_ballot(i % 3 == 0);
  ulong bits = static_cast<ulong>(simd_vote::vote_t(b));
  float s = popcount(bits & 0xFFFFFFFFul) + (simd_any(lane == 40) ? 100 : 0) + (simd_all(lane < 32) ?
      1000 : 0) + (simd_is_first() ? 5 : 0);
  s += b.any() ? 0.5f : 0;
  s += b.all() ? 0.25f : 0;
  s += popcount(static_cast<ulong>(simd_vote::vote_t(simd_active_threads_mask())));
  y[i] = s;
}

// simd of vectors
kernel void simd_of_vectors(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float4 v = float4(x[i], 1, lane, i);
  float4 d = simd_shuffle_down(v, 1);
  half2 h = simd_sum(half2(1, 2));
  int2 m = simd_max(int2(lane, -int(lane)));
  ushort q = quad_sum(ushort(lane));
  float2 u = quad_shuffle_xor(v.xz, 1);
  float qb = quad_broadcast(x[i], 2);
  y[i] = (lane < 31 ? d.x + d.w : 0) + float(h.y) + m.x + m.y + q + u.x + u.y + qb +
      quad_prefix_inclusive_sum(1u);
}

// fill shuffles and masks
kernel void fill_shuffles_and_masks(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float a = simd_shuffle_and_fill_up(x[i], -x[i], 3);
  float b = simd_shuffle_and_fill_down(x[i], 100.0f + lane, 30);
  float c = simd_shuffle_up(x[i], 1);
  float d = quad_sum(x[i]) + quad_product(1.0f) + quad_min(x[i]) + quad_shuffle_rotate_down(x[i], 1) +
      quad_shuffle_up(1.0f, 0) + (quad_any(lane & 1) ? 1 : 0) + (quad_all(lane < 4) ? 1 : 0);
  y[i] = a + b + (lane > 0 ? c : 0) + d;
}

// atomic loops
namespace of_atomic_loops {
static void add(volatile device atomic_uint* p, float v) {
  uint old = atomic_load_explicit(p, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(p, &old, as_type<uint>(as_type<float>(old) + v),
      memory_order_relaxed, memory_order_relaxed)) {
  }
}
}
kernel void atomic_loops(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_atomic_loops;
  threadgroup atomic_uint m, bits[2];
  threadgroup atomic_int low;
  if (i == 0) {
    atomic_store_explicit(&m, 0u, memory_order_relaxed);
    atomic_store_explicit(&low, 1000, memory_order_relaxed);
  }
  if (i < 2) atomic_store_explicit(&bits[i], 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_max_explicit(&m, uint(x[i]) * 3, memory_order_relaxed);
  atomic_fetch_min_explicit(&low, int(x[i]) - 9, memory_order_relaxed);
  atomic_fetch_or_explicit(&bits[sg], 1u << lane, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint was = 0;
  if (i == 5) was = atomic_exchange_explicit(&bits[1], 4u, memory_order_relaxed);
  y[i] = atomic_load_explicit(&m, memory_order_relaxed) + atomic_load_explicit(&low,
      memory_order_relaxed) + float(was == 0xFFFFFFFF);
}

// more atomics
namespace of_more_atomics {
struct Node {
  atomic_uint n;
  float v;
};
}
kernel void more_atomics(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_more_atomics;
  threadgroup Node nodes[4];
  threadgroup atomic_uint f;
  threadgroup atomic<int> t;
  threadgroup atomic_bool flag;
  threadgroup atomic_uint grid[2][2];
  if (i < 4) {
    atomic_store_explicit(&nodes[i].n, i, memory_order_relaxed);
    nodes[i].v = i;
    atomic_store_explicit(&grid[i / 2][i % 2], 0u, memory_order_relaxed);
  }
  if (i == 0) {
    atomic_store_explicit(&f, 0u, memory_order_relaxed);
    atomic_store_explicit(&t, 0, memory_order_relaxed);
    atomic_store_explicit(&flag, false, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&nodes[i & 3].n, 2u, memory_order_relaxed);
  atomic_fetch_add_explicit(&f, uint(x[i]), memory_order_relaxed);
  atomic_fetch_sub_explicit(&t, int(i), memory_order_relaxed);
  if (i == 9) atomic_store_explicit(&flag, true, memory_order_relaxed);
  atomic_fetch_xor_explicit(&grid[i & 1][1], 1u << lane, memory_order_relaxed);
  atomic_fetch_and_explicit(&nodes[0].n, 0xFFFFFFFFu, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = atomic_load_explicit(&nodes[i & 3].n, memory_order_relaxed) + atomic_load_explicit(&f,
      memory_order_relaxed) + atomic_load_explicit(&t, memory_order_relaxed) +
      (atomic_load_explicit(&flag, memory_order_relaxed) ? 0.5f : 0) +
      atomic_load_explicit(&grid[0][1], memory_order_relaxed) + nodes[i & 3].v;
}
