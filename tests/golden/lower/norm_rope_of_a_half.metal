// rowwise(lanes=32, rows=4, cached=0)
// cast_square_mean_add_rsqrt_multiply_subtract_con: x, weight, cosine, sine -> out; grid (32, 'rows * 16', 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

constexpr uint columns = 128;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,16,128]
auto x_row = x + row * columns;
// cosine: f32[16,32]
auto cosine_row = cosine + (row % 16) * 32 - 32;
// sine: f32[16,32]
auto sine_row = sine + (row % 16) * 32 - 32;
// out: f32[rows,16,128]
auto out_row = out + row * columns;
float total = 0.0f;
for (uint column = lane; column < columns; column += 32) {
  float x_value = x_row[column];
  total += x_value * x_value;
}
total = metal::simd_sum(total);
float inverse_root = metal::precise::rsqrt(total / columns + 1e-05f);
for (uint column = lane; column < columns; column += 32) {
  float element;
  if (column < 64) {
    element = float(x_row[column]) * inverse_root * float(weight[column]);
  } else {
    if (column % 2 == 0) {
      auto x_run = load_run<packed_half2>(x_row + (column / 2) * 2);
      float x_value = x_run[0];
      float x_value_2 = x_run[1];
      auto weight_run = load_run<packed_half2>(weight + (column / 2) * 2);
      float weight_value = weight_run[0];
      float weight_value_2 = weight_run[1];
      float product = x_value * inverse_root * weight_value * cosine_row[column / 2];
      float product_2 = x_value_2 * inverse_root * weight_value_2 * sine_row[column / 2];
      element = product - product_2;
    } else {
      auto x_run = load_run<packed_half2>(x_row + (column / 2) * 2);
      float x_value = x_run[0];
      float x_value_2 = x_run[1];
      auto weight_run = load_run<packed_half2>(weight + (column / 2) * 2);
      float weight_value = weight_run[0];
      float weight_value_2 = weight_run[1];
      float product = x_value_2 * inverse_root * weight_value_2 * cosine_row[column / 2];
      element = x_value * inverse_root * weight_value * sine_row[column / 2] + product;
    }
  }
  out_row[column] = element;
}
