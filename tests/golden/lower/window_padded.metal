// elementwise(vector=4, threads=256)
// convolution: x, w -> out; grid (16, 32, 'rows * 32'), threadgroup (16, 16, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

uint plane = thread_position_in_grid.z;
uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 4;
uint place = plane % 32;
bool is_inside = place >= 1u;
bool is_inside_2 = row >= 1u;
bool is_inside_3 = is_inside && is_inside_2;
uint edge = metal::max(place, 1u) - 1u;
uint edge_2 = metal::max(row, 1u) - 1u;
uint place_2 = row + 2;
bool is_inside_4 = place_2 < 33u;
bool is_inside_5 = is_inside && is_inside_4;
uint edge_3 = metal::min(place_2, 32u) - 1u;
uint place_3 = plane % 32 + 2;
bool is_inside_6 = place_3 < 33u;
bool is_inside_7 = is_inside_6 && is_inside_2;
uint edge_4 = metal::min(place_3, 32u) - 1u;
bool is_inside_8 = is_inside_6 && is_inside_4;
auto x_run = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge * 2048 + edge_2 * 64 + start));
auto x_run_2 = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge * 2048 + row * 64 + start));
auto x_run_3 = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge * 2048 + edge_3 * 64 + start));
auto x_run_4 = load_run<packed_half4>(x + (plane * 2048 + edge_2 * 64 + start));
auto x_run_5 = load_run<packed_half4>(x + (plane * 2048 + row * 64 + start));
auto x_run_6 = load_run<packed_half4>(x + (plane * 2048 + edge_3 * 64 + start));
auto x_run_7 = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge_4 * 2048 + edge_2 * 64 + start));
auto x_run_8 = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge_4 * 2048 + row * 64 + start));
auto x_run_9 = load_run<packed_half4>(x + ((plane / 32) * 65536 + edge_4 * 2048 + edge_3 * 64 + start));
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  uint column = start + k;
  uint place_4 = column * 9;
  float product = (is_inside ? float(x_run_2[k]) : 0.0f) * float(w[place_4 + 1]);
  float total = (is_inside_3 ? float(x_run[k]) : 0.0f) * float(w[place_4]) + product;
  float product_2 = (is_inside_5 ? float(x_run_3[k]) : 0.0f) * float(w[place_4 + 2]);
  float product_3 = (is_inside_2 ? float(x_run_4[k]) : 0.0f) * float(w[place_4 + 3]);
  float total_2 = total + product_2 + product_3 + float(x_run_5[k]) * float(w[place_4 + 4]);
  float product_4 = (is_inside_4 ? float(x_run_6[k]) : 0.0f) * float(w[place_4 + 5]);
  float product_5 = (is_inside_7 ? float(x_run_7[k]) : 0.0f) * float(w[place_4 + 6]);
  float product_6 = (is_inside_6 ? float(x_run_8[k]) : 0.0f) * float(w[place_4 + 7]);
  float product_7 = (is_inside_8 ? float(x_run_9[k]) : 0.0f) * float(w[place_4 + 8]);
  out_run[k] = half(total_2 + product_4 + product_5 + product_6 + product_7);
}
*(device packed_half4*)(out + (plane * 2048 + row * 64 + start)) = out_run;
