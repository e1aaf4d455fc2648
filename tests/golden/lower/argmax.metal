// rowwise(lanes=64, rows=1, vector=1, cached=0)
// argmax: x -> out; grid (64, 'rows', 1), threadgroup (64, 1, 1)
// Whether a is a new maximum; the first NaN stays, as in MLX.
inline bool exceeds(float a, float b) {
  return a > b || (metal::isnan(a) && !metal::isnan(b));
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

inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}

// Min over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_min(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {
  value = metal::simd_min(value);
  if (simd_lane == 0) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return metal::simd_min(partial[simd_lane < simdgroups ? simd_lane : 0]);
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
uint simd_lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
float best = -INFINITY;
uint position = 0;
for (uint column = lane; column < columns; column += 64) {
  float x_value = x_row[column];
  if (exceeds(x_value, best)) {
    best = x_value;
    position = column;
  }
}
threadgroup float partial_best[2];
float row_best = threadgroup_maximum(best, partial_best, simdgroup, 2, simd_lane);
position = same(best, row_best) ? position : columns;
threadgroup uint partial_position[2];
position = threadgroup_min(position, partial_position, simdgroup, 2, simd_lane);
if (lane == 0) {
  out[row] = position;
}
