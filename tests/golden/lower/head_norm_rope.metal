// rowwise(lanes=32, rows=4, vector=2, cached=1)
// cast_square_mean_add_rsqrt_multiply_arange_exp_c: x, weight -> out; grid (32, 128, 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[1,16,8,128]
auto x_row = x + (row % 16) * 1024 + (row / 16) * 128;
// out: f16[1,8,16,128]
auto out_row = out + row * 128;
float x_values[2];
float x_values_2[2];
float total = 0.0f;
uint start = lane * 2;
auto x_run = load_run<packed_half2>(x_row + start);
auto x_run_2 = load_run<packed_half2>(x_row + (start + 64));
for (uint k = 0; k < 2; ++k) {
  x_values[k] = x_run[k];
  x_values_2[k] = x_run_2[k];
  total += x_values[k] * x_values[k] + x_values_2[k] * x_values_2[k];
}
total = metal::simd_sum(total);
float inverse_root = metal::precise::rsqrt(total / 128 + 1e-06f);
float place = float(row % 16);
auto weight_run = load_run<packed_half2>(weight + start);
auto weight_run_2 = load_run<packed_half2>(weight + (start + 64));
packed_half2 out_run;
packed_half2 out_run_2;
for (uint k = 0; k < 2; ++k) {
  uint column = start + k;
  float product = x_values[k] * inverse_root * float(weight_run[k]);
  float product_2 = place * metal::precise::exp(-float(column) * 0.14391157f);
  float cosine = metal::precise::cos(product_2);
  float product_3 = x_values_2[k] * inverse_root * float(weight_run_2[k]);
  float sine = metal::precise::sin(product_2);
  out_run[k] = half(product * cosine - product_3 * sine);
  out_run_2[k] = half(product * sine + product_3 * cosine);
}
*(device packed_half2*)(out_row + start) = out_run;
*(device packed_half2*)(out_row + (start + 64)) = out_run_2;
