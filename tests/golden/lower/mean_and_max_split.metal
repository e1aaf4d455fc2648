// split(chunks=64, lanes=64, vector=4)
// mean_max_chunks: x -> partial_0, partial_1; grid (64, 64, 1), threadgroup (64, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// The larger of two values; NaN wins, as in MLX.
inline float larger(float a, float b) {
  return metal::isnan(a) || a > b ? a : b;
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

// metal::simd_max() drops NaN; MLX keeps it.
inline float simd_maximum(float value) {
  return metal::simd_any(metal::isnan(value)) ? NAN : metal::simd_max(value);
}

// Maximum over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_maximum(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {
  value = simd_maximum(value);
  if (simd_lane == 0) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return simd_maximum(partial[simd_lane < simdgroups ? simd_lane : 0]);
}

constexpr uint columns = 1024;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
uint simd_lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
// x: f16[64,1024]
auto x_row = x + row * columns;
float total = 0.0f;
float maximum = -INFINITY;
for (uint start = lane * 4; start < columns; start += 256) {
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    float x_value = x_run[k];
    total += x_value;
    maximum = larger(maximum, x_value);
  }
}
threadgroup float partial_total[2];
total = threadgroup_sum(total, partial_total, simdgroup, 2, simd_lane);
threadgroup float partial_maximum[2];
maximum = threadgroup_maximum(maximum, partial_maximum, simdgroup, 2, simd_lane);
if (lane == 0) {
  partial_0[row] = total;
  partial_1[row] = maximum;
}
// mean_max_rest: partial_0, partial_1 -> out0, out1; grid (32, 1, 1), threadgroup (32, 1, 1)
// The larger of two values; NaN wins, as in MLX.
inline float larger(float a, float b) {
  return metal::isnan(a) || a > b ? a : b;
}

// metal::simd_max() drops NaN; MLX keeps it.
inline float simd_maximum(float value) {
  return metal::simd_any(metal::isnan(value)) ? NAN : metal::simd_max(value);
}

constexpr uint columns = 64;
uint lane = thread_index_in_simdgroup;
float total = 0.0f;
float maximum = -INFINITY;
for (uint column = lane; column < columns; column += 32) {
  total += partial_0[column];
  maximum = larger(maximum, partial_1[column]);
}
total = metal::simd_sum(total);
maximum = simd_maximum(maximum);
if (lane == 0) {
  out0[0] = half(total / 65536);
  out1[0] = half(maximum);
}
