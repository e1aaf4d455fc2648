// rowwise(lanes=32, rows=4, cached=0)
// cast_square_mean_add_rsqrt_multiply_subtract_con: x, weight, cosine, sine -> out; grid (32, 'rows * 16', 1), threadgroup (32, 4, 1)

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
      float product = float(x_row[(column / 2) * 2]) * inverse_root * float(weight[(column / 2) * 2]);
      float product_2 = float(x_row[(column / 2) * 2 + 1]) * inverse_root * float(weight[(column / 2) * 2 + 1]);
      element = product * cosine_row[column / 2] - product_2 * sine_row[column / 2];
    } else {
      float product = float(x_row[(column / 2) * 2]) * inverse_root * float(weight[(column / 2) * 2]);
      float product_2 = float(x_row[(column / 2) * 2 + 1]) * inverse_root * float(weight[(column / 2) * 2 + 1]);
      element = product * sine_row[column / 2] + product_2 * cosine_row[column / 2];
    }
  }
  out_row[column] = element;
}
