// rowwise(lanes=32, rows=4, vector=4, cached=1)
// add_cast_square_mean_rsqrt_multiply: x, residual, weight -> out0, out1; grid (32, 'rows', 1), threadgroup (32, 4, 1)
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
// residual: f16[rows,512]
auto residual_row = residual + row * columns;
// out0: f16[rows,512]
auto out0_row = out0 + row * columns;
// out1: f16[rows,512]
auto out1_row = out1 + row * columns;
float sums[16];
float total = 0.0f;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  auto x_run = load_run<packed_half4>(x_row + start);
  auto residual_run = load_run<packed_half4>(residual_row + start);
  packed_half4 out0_run;
  for (uint k = 0; k < 4; ++k) {
    sums[i * 4 + k] = float(x_run[k]) + float(residual_run[k]);
    out0_run[k] = half(sums[i * 4 + k]);
    total += sums[i * 4 + k] * sums[i * 4 + k];
  }
  *(device packed_half4*)(out0_row + start) = out0_run;
}
total = metal::simd_sum(total);
float inverse_root = metal::precise::rsqrt(total / columns + 1e-05f);
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  auto weight_run = load_run<packed_half4>(weight + start);
  packed_half4 out1_run;
  for (uint k = 0; k < 4; ++k) {
    out1_run[k] = half(sums[i * 4 + k] * inverse_root * float(weight_run[k]));
  }
  *(device packed_half4*)(out1_row + start) = out1_run;
}
