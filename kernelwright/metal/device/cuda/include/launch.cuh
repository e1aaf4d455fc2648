// Metal's exact grid on CUDA's whole blocks.
//
// The translator defines KW_GRID_* (threads) and KW_GROUP_* (threads per threadgroup). Blocks are
// one-dimensional: a ragged threadgroup is smaller on Metal, and its threads are numbered within
// what is left, which a CUDA block of the full shape would get wrong. Threads beyond it leave at
// once; `__syncthreads()` waits for the others only. The grid of blocks is one-dimensional too:
// CUDA allows 65535 along y and z, Metal has no such limit.
namespace metal {

constexpr bool kw_threadgroups_are_whole =
    KW_GRID_X % KW_GROUP_X == 0 && KW_GRID_Y % KW_GROUP_Y == 0 && KW_GRID_Z % KW_GROUP_Z == 0;
constexpr uint kw_groups_x = (KW_GRID_X + KW_GROUP_X - 1) / KW_GROUP_X;
constexpr uint kw_groups_y = (KW_GRID_Y + KW_GROUP_Y - 1) / KW_GROUP_Y;
constexpr uint kw_groups_z = (KW_GRID_Z + KW_GROUP_Z - 1) / KW_GROUP_Z;
constexpr uint kw_full_threads = KW_GROUP_X * KW_GROUP_Y * KW_GROUP_Z;
constexpr bool kw_simdgroups_are_whole = kw_threadgroups_are_whole && kw_full_threads % 32u == 0;

KW_FUNC uint3 kw_threadgroup_position_in_grid() {
  uint i = blockIdx.x;
  if constexpr (kw_groups_y == 1 && kw_groups_z == 1) return uint3(i, 0u, 0u);
  return uint3(i % kw_groups_x, i / kw_groups_x % kw_groups_y, i / (kw_groups_x * kw_groups_y));
}
KW_FUNC uint kw_extent(uint grid, uint group, uint index) {
  uint left = grid - index * group;
  return left < group ? left : group;
}
KW_FUNC uint3 kw_group() {
  if constexpr (kw_threadgroups_are_whole) return uint3(KW_GROUP_X, KW_GROUP_Y, KW_GROUP_Z);
  uint3 at = kw_threadgroup_position_in_grid();
  return uint3(kw_extent(KW_GRID_X, KW_GROUP_X, at.x), kw_extent(KW_GRID_Y, KW_GROUP_Y, at.y),
               kw_extent(KW_GRID_Z, KW_GROUP_Z, at.z));
}
KW_FUNC uint kw_threads() {
  if constexpr (kw_threadgroups_are_whole) return kw_full_threads;
  uint3 group = kw_group();
  return group.x * group.y * group.z;
}
KW_FUNC bool kw_is_outside() { return !kw_threadgroups_are_whole && threadIdx.x >= kw_threads(); }

KW_FUNC uint3 kw_thread_position_in_threadgroup() {
  uint3 group = kw_group();
  uint i = threadIdx.x;
  return uint3(i % group.x, i / group.x % group.y, i / (group.x * group.y));
}
KW_FUNC uint3 kw_thread_position_in_grid() {
  return kw_threadgroup_position_in_grid() * uint3(KW_GROUP_X, KW_GROUP_Y, KW_GROUP_Z) +
         kw_thread_position_in_threadgroup();
}
KW_FUNC uint3 kw_threads_per_threadgroup() { return kw_group(); }
KW_FUNC uint3 kw_dispatch_threads_per_threadgroup() { return uint3(KW_GROUP_X, KW_GROUP_Y, KW_GROUP_Z); }
KW_FUNC uint3 kw_threads_per_grid() { return uint3(KW_GRID_X, KW_GRID_Y, KW_GRID_Z); }
KW_FUNC uint3 kw_grid_size() { return kw_threads_per_grid(); }
KW_FUNC uint3 kw_grid_origin() { return uint3(0u); }
KW_FUNC uint3 kw_threadgroups_per_grid() { return uint3(kw_groups_x, kw_groups_y, kw_groups_z); }
KW_FUNC uint kw_thread_index_in_threadgroup() { return threadIdx.x; }
KW_FUNC uint kw_thread_index_in_simdgroup() { return threadIdx.x % 32u; }
KW_FUNC uint kw_simdgroup_index_in_threadgroup() { return threadIdx.x / 32u; }
KW_FUNC uint kw_simdgroups_per_threadgroup() { return (kw_threads() + 31u) / 32u; }
KW_FUNC uint kw_dispatch_simdgroups_per_threadgroup() { return (kw_full_threads + 31u) / 32u; }
KW_FUNC uint kw_threads_per_simdgroup() { return 32u; }
KW_FUNC uint kw_thread_execution_width() { return 32u; }
KW_FUNC uint kw_thread_index_in_quadgroup() { return threadIdx.x % 4u; }
KW_FUNC uint kw_quadgroup_index_in_threadgroup() { return threadIdx.x / 4u; }
KW_FUNC uint kw_quadgroups_per_threadgroup() { return (kw_threads() + 3u) / 4u; }
KW_FUNC uint kw_dispatch_quadgroups_per_threadgroup() { return (kw_full_threads + 3u) / 4u; }

// What MLX's prelude gives to kernels of strided inputs.
template <class I, class S>
KW_FUNC S elem_to_loc(I element, const int* shape, const S* strides, int dimensions) {
  S location = 0;
  for (int axis = dimensions - 1; axis >= 0 && element > 0; axis--) {
    location += S(element % shape[axis]) * strides[axis];
    element /= shape[axis];
  }
  return location;
}

// Where a body's next threadgroup array begins, of those that are allocated at launch: no type of
// Metal's is aligned to more than 32 bytes (ulong4).
KW_FUNC constexpr uint kw_place(uint end) { return (end + 31u) / 32u * 32u; }

// MLX's allocations are aligned for every packed vector; views of them may begin anywhere. Told where
// an array begins, the compiler finds which neighbours may be read and written in one access.
template <class T> KW_FUNC bool kw_is_aligned(const T* p) { return (ulong)p % 16u == 0; }
template <class T> KW_FUNC T* kw_aligned(T* p) { return (T*)__builtin_assume_aligned(p, 16); }

}  // namespace metal
