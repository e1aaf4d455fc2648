// elementwise(vector=8, threads=256)
// add_sigmoid_multiply: gate, up, bias -> out; grid (64, 'rows', 1), threadgroup (64, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Eight neighbours, aligned like one of them: Metal's own packed vectors end at four.
template <typename T>
struct packed_eight {
  T values[8];
  thread T& operator[](uint i) {
    return values[i];
  }
};

// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}

uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 8;
auto gate_run = load_run<packed_eight<half>>(gate + (row * 512 + start));
auto bias_run = load_run<packed_eight<half>>(bias + start);
auto up_run = load_run<packed_eight<half>>(up + (row * 512 + start));
packed_eight<half> out_run;
for (uint k = 0; k < 8; ++k) {
  float sum = float(gate_run[k]) + float(bias_run[k]);
  out_run[k] = half(sum * quick_sigmoid(sum) * float(up_run[k]));
}
*(device packed_eight<half>*)(out + (row * 512 + start)) = out_run;
