// rowwise(lanes=32, rows=4, vector=4, cached=0)
// argmax: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}

// metal::simd_max() drops NaN; MLX keeps it.
inline float simd_maximum(float value) {
  return metal::simd_any(metal::isnan(value)) ? NAN : metal::simd_max(value);
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
float best = -INFINITY;
uint position = 0;
for (uint start = lane * 4; start < columns; start += 128) {
  float highest = best;
  bool has_nan = false;
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    highest = metal::max(highest, float(x_run[k]));
    has_nan |= metal::isnan(float(x_run[k]));
  }
  if (highest > best || (has_nan && !metal::isnan(best))) {
    best = has_nan ? NAN : highest;
    position = start;
  }
}
{
  uint start = position;
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    if (same(float(x_run[k]), best)) {
      position = column;
      break;
    }
  }
}
float row_best = simd_maximum(best);
position = same(best, row_best) ? position : columns;
position = metal::simd_min(position);
if (lane == 0) {
  out[row] = position;
}
