// elementwise(vector=4, threads=256, rows=4)
// convolution: x, w -> out; grid (16, 8, 'rows'), threadgroup (16, 8, 2)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Neighbours of which a thread takes several at each step, aligned like one of them.
template <typename T, uint count>
struct packed_many {
  T values[count];
  thread T& operator[](uint i) {
    return values[i];
  }
};

uint plane = thread_position_in_grid.z;
uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 4;
uint place = row * 4;
bool is_inside = place >= 3u;
uint edge = metal::max(place, 3u) - 3u;
uint place_2 = row * 4 + 1;
bool is_inside_2 = place_2 >= 3u;
uint edge_2 = metal::max(place_2, 3u) - 3u;
uint place_3 = row * 4 + 2;
bool is_inside_3 = place_3 >= 3u;
uint edge_3 = metal::max(place_3, 3u) - 3u;
auto w_run = load_run<packed_many<half, 16>>(w + start * 4);
auto x_run = load_run<packed_half4>(x + (plane * 2048 + edge * 64 + start));
auto x_run_2 = load_run<packed_half4>(x + (plane * 2048 + edge_2 * 64 + start));
auto x_run_3 = load_run<packed_half4>(x + (plane * 2048 + edge_3 * 64 + start));
auto x_run_4 = load_run<packed_half4>(x + (plane * 2048 + row * 256 + start));
auto x_run_5 = load_run<packed_half4>(x + (plane * 2048 + row * 256 + start + 64));
auto x_run_6 = load_run<packed_half4>(x + (plane * 2048 + row * 256 + start + 128));
auto x_run_7 = load_run<packed_half4>(x + (plane * 2048 + row * 256 + start + 192));
packed_half4 out_run;
packed_half4 out_run_2;
packed_half4 out_run_3;
packed_half4 out_run_4;
for (uint k = 0; k < 4; ++k) {
  float w_value = w_run[k * 4];
  float element = is_inside_2 ? float(x_run_2[k]) : 0.0f;
  float w_value_2 = w_run[k * 4 + 1];
  float total = (is_inside ? float(x_run[k]) : 0.0f) * w_value + element * w_value_2;
  float element_2 = is_inside_3 ? float(x_run_3[k]) : 0.0f;
  float w_value_3 = w_run[k * 4 + 2];
  float x_value = x_run_4[k];
  float w_value_4 = w_run[k * 4 + 3];
  float total_2 = element * w_value + element_2 * w_value_2 + x_value * w_value_3;
  float x_value_2 = x_run_5[k];
  float total_3 = element_2 * w_value + x_value * w_value_2 + x_value_2 * w_value_3;
  float x_value_3 = x_run_6[k];
  float total_4 = x_value * w_value + x_value_2 * w_value_2 + x_value_3 * w_value_3;
  out_run[k] = half(total + element_2 * w_value_3 + x_value * w_value_4);
  out_run_2[k] = half(total_2 + x_value_2 * w_value_4);
  out_run_3[k] = half(total_3 + x_value_3 * w_value_4);
  out_run_4[k] = half(total_4 + float(x_run_7[k]) * w_value_4);
}
*(device packed_half4*)(out + (plane * 2048 + row * 256 + start)) = out_run;
*(device packed_half4*)(out + (plane * 2048 + row * 256 + start + 64)) = out_run_2;
*(device packed_half4*)(out + (plane * 2048 + row * 256 + start + 128)) = out_run_3;
*(device packed_half4*)(out + (plane * 2048 + row * 256 + start + 192)) = out_run_4;
