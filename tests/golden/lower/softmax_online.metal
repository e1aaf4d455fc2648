// rowwise(lanes=128, rows=1, vector=4, cached=0, online=1)
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
float maximum = -FLT_MAX;
float total = 0.0f;
for (uint start = lane * 4; start < columns; start += 512) {
  float raised = maximum;
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    raised = metal::max(raised, float(x_run[k]));
  }
  if (raised > maximum) {
    total *= metal::fast::exp(maximum - raised);
    maximum = raised;
  }
  for (uint k = 0; k < 4; ++k) {
    total += metal::fast::exp(float(x_run[k]) - maximum);
  }
}
threadgroup float partial_maximum[4];
float row_maximum = threadgroup_max(maximum, partial_maximum, simdgroup, 4, simd_lane);
total *= metal::fast::exp(maximum - row_maximum);
threadgroup float partial_total[4];
total = threadgroup_sum(total, partial_total, simdgroup, 4, simd_lane);
float normalizer = 1.0f / total;
for (uint start = lane * 4; start < columns; start += 512) {
  auto x_run = load_run<packed_half4>(x_row + start);
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    out_run[k] = half(metal::fast::exp(float(x_run[k]) - row_maximum) * normalizer);
  }
  *(device packed_half4*)(out_row + start) = out_run;
}
