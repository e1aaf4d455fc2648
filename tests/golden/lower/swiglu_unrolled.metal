// elementwise(vector=4, threads=64, unroll=2)
// add_sigmoid_multiply: gate, up, bias -> out; grid (64, 'rows', 1), threadgroup (64, 1, 1)
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
uint first = (threadgroup_position_in_grid.x * 128 + thread_position_in_threadgroup.x) * 4;
packed_half4 gate_runs[2];
packed_half4 bias_runs[2];
packed_half4 up_runs[2];
for (uint j = 0; j < 2; ++j) {
  uint start = first + j * 256;
  gate_runs[j] = load_run<packed_half4>(gate + (row * 512 + start));
  bias_runs[j] = load_run<packed_half4>(bias + start);
  up_runs[j] = load_run<packed_half4>(up + (row * 512 + start));
}
for (uint j = 0; j < 2; ++j) {
  uint start = first + j * 256;
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    float sum = float(gate_runs[j][k]) + float(bias_runs[j][k]);
    out_run[k] = half(sum * quick_sigmoid(sum) * float(up_runs[j][k]));
  }
  *(device packed_half4*)(out + (row * 512 + start)) = out_run;
}
