// rowwise(lanes=128, rows=1, vector=4, cached=1)
// softmax: x -> out; grid (128, 'rows', 1), threadgroup (128, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Max over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_max(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {
  value = metal::simd_max(value);
  if (simd_lane == 0) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return metal::simd_max(partial[simd_lane < simdgroups ? simd_lane : 0]);
}

// Sum over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_sum(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {
  value = metal::simd_sum(value);
  if (simd_lane == 0) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return metal::simd_sum(simd_lane < simdgroups ? partial[simd_lane] : T(0));
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
uint simd_lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float x_values[4];
float maximum = -INFINITY;
uint start = lane * 4;
auto x_run = load_run<packed_half4>(x_row + start);
for (uint k = 0; k < 4; ++k) {
  x_values[k] = x_run[k];
  maximum = metal::max(maximum, x_values[k]);
}
threadgroup float partial_maximum[4];
maximum = threadgroup_max(maximum, partial_maximum, simdgroup, 4, simd_lane);
float exponentials[4];
float total = 0.0f;
for (uint k = 0; k < 4; ++k) {
  exponentials[k] = metal::fast::exp(x_values[k] - maximum);
  total += exponentials[k];
}
threadgroup float partial_total[4];
total = threadgroup_sum(total, partial_total, simdgroup, 4, simd_lane);
float normalizer = 1.0f / total;
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  out_run[k] = half(exponentials[k] * normalizer);
}
*(device packed_half4*)(out_row + start) = out_run;
