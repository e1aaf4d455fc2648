#include <metal_stdlib>
#include <metal_compute>
using namespace metal;
#if defined(__METAL_VERSION__) && __METAL_VERSION__ >= 300
typedef atomic<float> atomic_f;
#endif
struct Args { uint n, k; float tolerance; uint8_t dims; bool reset; };
kernel void assign(const device float2* points [[buffer(0)]], constant float2* centers [[buffer(1)]], device uint* label [[buffer(2)]], device atomic_f* sums [[buffer(3)]], device atomic_uint* counts [[buffer(4)]], constant Args& args [[buffer(5)]], uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint local_counts[16]; threadgroup float2 cache[16];
  if (l < 16) { atomic_store_explicit(&local_counts[l], 0u, memory_order_relaxed); if (l < args.k) cache[l] = centers[l]; }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i < args.n) {
    float best = HUGE_VALF; uint which = 0;
    for (uint c = 0; c < args.k; ++c) if (const float d = distance_squared(points[i], cache[c]); d < best) { best = d; which = c; }
    label[i] = which;
    atomic_fetch_add_explicit(&local_counts[which], 1u, memory_order_relaxed);
    atomic_fetch_add_explicit(sums + 2 * which, points[i].x, memory_order_relaxed);
    atomic_fetch_add_explicit(&sums[2 * which + 1], points[i].y, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (l < args.k) { uint c = atomic_exchange_explicit(&local_counts[l], 0u, memory_order_relaxed); if (c) atomic_fetch_add_explicit(&counts[l], c, memory_order_relaxed); }
}
