// elementwise(vector=4)
// multiply_sum: x, w -> out; grid (128, 'rows', 1), threadgroup (128, 2, 1)
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
uint start = thread_position_in_grid.x * 4;
auto w_run = load_run<packed_half4>(w + row * 4);
float w_value = w_run[0];
float w_value_2 = w_run[1];
float w_value_3 = w_run[2];
float w_value_4 = w_run[3];
auto x_run = load_run<packed_half4>(x + (row * 2048 + start));
auto x_run_2 = load_run<packed_half4>(x + (row * 2048 + start + 512));
auto x_run_3 = load_run<packed_half4>(x + (row * 2048 + start + 1024));
auto x_run_4 = load_run<packed_half4>(x + (row * 2048 + start + 1536));
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  float total = float(x_run[k]) * w_value + float(x_run_2[k]) * w_value_2 + float(x_run_3[k]) * w_value_3;
  out_run[k] = half(total + float(x_run_4[k]) * w_value_4);
}
*(device packed_half4*)(out + (row * 512 + start)) = out_run;
