// elementwise(vector=4, threads=256)
// add_sigmoid_multiply: gate, up, bias -> out; grid (128, 'rows', 1), threadgroup (128, 2, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}

uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 4;
auto gate_run = load_run<packed_half4>(gate + (row * 512 + start));
auto bias_run = load_run<packed_half4>(bias + start);
auto up_run = load_run<packed_half4>(up + (row * 512 + start));
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  float sum = float(gate_run[k]) + float(bias_run[k]);
  out_run[k] = half(sum * quick_sigmoid(sum) * float(up_run[k]));
}
*(device packed_half4*)(out + (row * 512 + start)) = out_run;
