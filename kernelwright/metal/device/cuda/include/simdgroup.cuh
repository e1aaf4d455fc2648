// Barriers, simdgroup and quadgroup operations on warps of 32.
//
// launch.cuh comes before and says how many threads this threadgroup has. Warps are used whole:
// `__activemask()` promises no reconvergence, and an operation under divergence is an error that
// the simulator reports.
namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
KW_FUNC constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(uint(a) | uint(b));
}
KW_FUNC void threadgroup_barrier(mem_flags flags) {
  if (uint(flags) & uint(mem_flags::mem_device)) ::__threadfence_block();
  ::__syncthreads();
}
KW_FUNC void simdgroup_barrier(mem_flags) { ::__syncwarp(); }

KW_FUNC uint kw_lane() { return threadIdx.x & 31u; }
KW_FUNC uint kw_lanes() {
  if constexpr (kw_simdgroups_are_whole) return 32u;
  uint left = kw_threads() - (threadIdx.x & ~31u);
  return left < 32u ? left : 32u;
}
KW_FUNC uint kw_mask() {
  uint lanes = kw_lanes();
  return lanes == 32u ? 0xffffffffu : (1u << lanes) - 1u;
}

// Any trivially copyable value moves between lanes as 32-bit words.
template <class T, class F> KW_FUNC T kw_move(T x, F move) {
  constexpr int words = (sizeof(T) + 3) / 4;
  uint data[words] = {};
  memcpy(data, &x, sizeof(T));
#pragma unroll
  for (int i = 0; i < words; i++) data[i] = move(data[i]);
  memcpy(&x, data, sizeof(T));
  return x;
}
template <class T> KW_FUNC T kw_shuffle(T x, uint lane) {
  return kw_move(x, [=](uint word) { return ::__shfl_sync(kw_mask(), word, int(lane)); });
}
// A distance that is a number stands in the instruction; a lane takes a register.
template <class T> KW_FUNC T kw_shuffle_xor(T x, uint m) {
  return kw_move(x, [=](uint word) { return ::__shfl_xor_sync(kw_mask(), word, int(m)); });
}

template <class T> KW_FUNC T simd_shuffle(T x, ushort lane) { return kw_shuffle(x, lane); }
template <class T> KW_FUNC T simd_shuffle_xor(T x, ushort m) { return kw_shuffle_xor(x, m); }
template <class T> KW_FUNC T simd_shuffle_down(T x, ushort n) {
  uint lane = kw_lane() + n;
  return kw_shuffle(x, lane < 32u ? lane : kw_lane());
}
template <class T> KW_FUNC T simd_shuffle_up(T x, ushort n) {
  uint lane = kw_lane();
  return kw_shuffle(x, lane >= n ? lane - n : lane);
}
template <class T> KW_FUNC T simd_shuffle_rotate_down(T x, ushort n) {
  return kw_shuffle(x, (kw_lane() + n) & 31u);
}
template <class T> KW_FUNC T simd_shuffle_rotate_up(T x, ushort n) {
  return kw_shuffle(x, (kw_lane() - n) & 31u);
}
template <class T> KW_FUNC T simd_shuffle_and_fill_down(T x, T fill, ushort n, ushort modulo = 32) {
  uint lane = kw_lane() % modulo + n;
  uint base = kw_lane() - kw_lane() % modulo;
  T within = kw_shuffle(x, base + lane % modulo);
  T beyond = kw_shuffle(fill, base + lane % modulo);
  return lane < modulo ? within : beyond;
}
template <class T> KW_FUNC T simd_shuffle_and_fill_up(T x, T fill, ushort n, ushort modulo = 32) {
  uint lane = kw_lane() % modulo + modulo - n;
  uint base = kw_lane() - kw_lane() % modulo;
  T within = kw_shuffle(x, base + lane % modulo);
  T beyond = kw_shuffle(fill, base + lane % modulo);
  return lane >= modulo ? within : beyond;
}
template <class T> KW_FUNC T simd_broadcast(T x, ushort lane) { return kw_shuffle(x, lane); }
template <class T> KW_FUNC T simd_broadcast_first(T x) { return kw_shuffle(x, 0u); }

// A butterfly when the warp is whole; else a tree into lane 0 that skips the missing lanes.
template <class T, class F> KW_FUNC T kw_reduce(T x, F combine) {
  uint lanes = kw_lanes();
  if (lanes == 32u) {
#pragma unroll
    for (uint step = 16; step > 0; step >>= 1) x = combine(x, kw_shuffle_xor(x, step));
    return x;
  }
  for (uint step = 16; step > 0; step >>= 1) {
    T other = kw_shuffle(x, kw_lane() ^ step);
    if ((kw_lane() ^ step) < lanes) x = combine(x, other);
  }
  return kw_shuffle(x, 0u);
}
#define KW_SIMD_REDUCTION(name, expression)                                     \
  template <class T> KW_FUNC T simd_##name(T x) {                               \
    return kw_reduce(x, [](T a, T b) { return T(expression); });                \
  }                                                                             \
  template <class T> KW_FUNC T quad_##name(T x) {                               \
    for (uint step = 2; step > 0; step >>= 1) {                                 \
      T a = x, b = kw_shuffle(x, kw_lane() ^ step);                             \
      x = T(expression);                                                        \
    }                                                                           \
    return x;                                                                   \
  }
KW_SIMD_REDUCTION(sum, a + b)
KW_SIMD_REDUCTION(product, a * b)
KW_SIMD_REDUCTION(max, max(a, b))
KW_SIMD_REDUCTION(min, min(a, b))
KW_SIMD_REDUCTION(and, a & b)
KW_SIMD_REDUCTION(or, a | b)
KW_SIMD_REDUCTION(xor, a ^ b)

#define KW_SIMD_PREFIX(name, op, identity)                                 \
  template <class T> KW_FUNC T simd_prefix_inclusive_##name(T x) {         \
    _Pragma("unroll") for (uint step = 1; step < 32; step <<= 1) {         \
      T other = simd_shuffle_up(x, ushort(step));                          \
      if (kw_lane() >= step) x = T(other op x);                            \
    }                                                                      \
    return x;                                                              \
  }                                                                        \
  template <class T> KW_FUNC T simd_prefix_exclusive_##name(T x) {         \
    T before = simd_shuffle_up(simd_prefix_inclusive_##name(x), ushort(1)); \
    return kw_lane() == 0u ? T(identity) : before;                         \
  }
KW_SIMD_PREFIX(sum, +, 0)
KW_SIMD_PREFIX(product, *, 1)

struct simd_vote {
  using vote_t = ulong;
  ulong lanes;
  KW_FUNC explicit simd_vote(ulong v = 0) : lanes(v) {}
  KW_FUNC explicit operator ulong() const { return lanes; }
  KW_FUNC bool all() const { return lanes == kw_mask(); }
  KW_FUNC bool any() const { return lanes != 0; }
};
KW_FUNC simd_vote simd_ballot(bool x) { return simd_vote(::__ballot_sync(kw_mask(), x)); }
KW_FUNC simd_vote simd_active_threads_mask() { return simd_ballot(true); }
KW_FUNC bool simd_all(bool x) { return ::__all_sync(kw_mask(), x); }
KW_FUNC bool simd_any(bool x) { return ::__any_sync(kw_mask(), x); }
KW_FUNC bool simd_is_first() { return kw_lane() == 0u; }

KW_FUNC uint kw_quad(uint lane) { return (kw_lane() & ~3u) | (lane & 3u); }
template <class T> KW_FUNC T quad_broadcast(T x, ushort lane) { return kw_shuffle(x, kw_quad(lane)); }
template <class T> KW_FUNC T quad_shuffle(T x, ushort lane) { return kw_shuffle(x, kw_quad(lane)); }
template <class T> KW_FUNC T quad_shuffle_xor(T x, ushort m) { return kw_shuffle(x, kw_lane() ^ (m & 3u)); }
template <class T> KW_FUNC T quad_shuffle_down(T x, ushort n) {
  uint lane = (kw_lane() & 3u) + n;
  return kw_shuffle(x, lane < 4u ? kw_quad(lane) : kw_lane());
}
template <class T> KW_FUNC T quad_shuffle_up(T x, ushort n) {
  uint lane = kw_lane() & 3u;
  return kw_shuffle(x, lane >= n ? kw_quad(lane - n) : kw_lane());
}

}  // namespace metal
