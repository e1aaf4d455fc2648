// rowwise(lanes=32, rows=4, vector=4, cached=0, kahan=1)
// sum: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
float total = 0.0f;
float total_lost = 0.0f;
for (uint start = lane * 4; start < columns; start += 128) {
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    float corrected = float(x_run[k]) - total_lost;
    float raised = total + corrected;
    total_lost = metal::isfinite(raised) ? (raised - total) - corrected : 0.0f;
    total = raised;
  }
}
total = metal::simd_sum(total);
if (lane == 0) {
  out[row] = half(total);
}
