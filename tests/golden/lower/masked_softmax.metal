// rowwise(lanes=64, rows=1, vector=4, cached=1)
// select_softmax: scores, mask -> out; grid (64, 'rows', 1), threadgroup (64, 1, 1)
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
// scores: f16[rows,512]
auto scores_row = scores + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float choices[8];
float maximum = -INFINITY;
for (uint i = 0; i < 2; ++i) {
  uint start = (i * 64 + lane) * 4;
  auto scores_run = load_run<packed_half4>(scores_row + start);
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    choices[i * 4 + k] = mask[column] ? float(scores_run[k]) : -INFINITY;
    maximum = metal::max(maximum, choices[i * 4 + k]);
  }
}
threadgroup float partial_maximum[2];
maximum = threadgroup_max(maximum, partial_maximum, simdgroup, 2, simd_lane);
float exponentials[8];
float total = 0.0f;
for (uint i = 0; i < 2; ++i) {
  uint start = (i * 64 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    exponentials[i * 4 + k] = metal::fast::exp(choices[i * 4 + k] - maximum);
    total += exponentials[i * 4 + k];
  }
}
threadgroup float partial_total[2];
total = threadgroup_sum(total, partial_total, simdgroup, 2, simd_lane);
float normalizer = 1.0f / total;
for (uint i = 0; i < 2; ++i) {
  uint start = (i * 64 + lane) * 4;
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    out_run[k] = half(exponentials[i * 4 + k] * normalizer);
  }
  *(device packed_half4*)(out_row + start) = out_run;
}
