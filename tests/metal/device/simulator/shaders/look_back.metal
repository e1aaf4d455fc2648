#include <metal_stdlib>
using namespace metal;
enum class Status : uint { invalid = 0u, aggregate = 1u << 30, prefix = 2u << 30 };
constant constexpr uint kMask = (1u << 30) - 1;
static inline bool has(uint word, Status s) { return (word & ~kMask) == static_cast<uint>(s); }
kernel void decoupled_lookback(device const uint *in [[buffer(0)]], device uint *out [[buffer(1)]], device atomic_uint *state [[buffer(2)]], device atomic_uint *ticket [[buffer(3)]],
    constant uint &n [[buffer(4)]], uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], uint warp [[simdgroup_index_in_threadgroup]], uint tg_size [[threads_per_threadgroup]]) {
  threadgroup uint part; threadgroup uint warp_sums[32]; threadgroup uint exclusive;
  if (tid == 0) part = atomic_fetch_add_explicit(ticket, 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint p = part, i = p * tg_size + tid, v = i < n ? in[i] : 0u;
  uint incl = simd_prefix_inclusive_sum(v);
  if (lane == 31) warp_sums[warp] = incl;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint before = 0; for (uint w = 0; w < warp; w++) before += warp_sums[w];
  incl += before;
  uint total = 0; for (uint w = 0; w < tg_size / 32; w++) total += warp_sums[w];
  if (tid == 0) {
    atomic_store_explicit(&state[p], total | uint(p == 0 ? Status::prefix : Status::aggregate), memory_order_relaxed);
    uint sum = 0; int look = int(p) - 1;
    while (look >= 0) {
      uint word = atomic_load_explicit(state + look, memory_order_relaxed);
      if (has(word, Status::invalid)) continue;
      sum += word & kMask;
      if (has(word, Status::prefix)) break;
      --look;
    }
    if (p) atomic_store_explicit(&state[p], (sum + total) | static_cast<uint>(Status::prefix), memory_order_relaxed);
    exclusive = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i < n) out[i] = exclusive + incl;
}
