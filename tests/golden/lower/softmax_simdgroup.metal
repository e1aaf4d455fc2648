// rowwise(lanes=32, rows=4, vector=4, cached=1)
// softmax: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
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
// out: f16[rows,512]
auto out_row = out + row * columns;
float x_values[16];
float maximum = -INFINITY;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    x_values[i * 4 + k] = x_run[k];
    maximum = metal::max(maximum, x_values[i * 4 + k]);
  }
}
maximum = metal::simd_max(maximum);
float exponentials[16];
float total = 0.0f;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    exponentials[i * 4 + k] = metal::fast::exp(x_values[i * 4 + k] - maximum);
    total += exponentials[i * 4 + k];
  }
}
total = metal::simd_sum(total);
float normalizer = 1.0f / total;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    out_run[k] = half(exponentials[i * 4 + k] * normalizer);
  }
  *(device packed_half4*)(out_row + start) = out_run;
}
