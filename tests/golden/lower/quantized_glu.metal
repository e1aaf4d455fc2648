// matvec(results=4, words=2, simdgroups=2)
// quantized_matmul_sigmoid_multiply: x, gate, gate_scales, gate_biases, up, up_scales, up_biases -> out; grid (32, 64, 1), threadgroup (32, 2, 1)
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

uint lane = thread_index_in_simdgroup;
uint first = thread_position_in_grid.y * 4;
float totals[4] = {};
float totals_2[4] = {};
uint tile = lane * 16;
float values[16];
for (uint i = 0; i < 16; i += 4) {
  uint start = tile + i;
  auto x_run = load_run<packed_half4>(x + start);
  for (uint k = 0; k < 4; ++k) {
    values[i + k] = x_run[k];
  }
}
for (uint j = 0; j < 4; ++j) {
  uint row = first + j;
  auto gate_run = load_run<packed_uint2>(gate + (row * 64 + tile / 8));
  float gate_scales_value = gate_scales[row * 8 + tile / 64];
  float gate_biases_value = gate_biases[row * 8 + tile / 64];
  auto up_run = load_run<packed_uint2>(up + (row * 64 + tile / 8));
  float up_scales_value = up_scales[row * 8 + tile / 64];
  float up_biases_value = up_biases[row * 8 + tile / 64];
  for (uint k = 0; k < 16; ++k) {
    uint digit = (gate_run[k / 8] >> ((k % 8) * 4)) & 15u;
    float weight = gate_scales_value * float(digit) + gate_biases_value;
    totals[j] += values[k] * weight;
    uint digit_2 = (up_run[k / 8] >> ((k % 8) * 4)) & 15u;
    float weight_2 = up_scales_value * float(digit_2) + up_biases_value;
    totals_2[j] += values[k] * weight_2;
  }
}
for (uint j = 0; j < 4; ++j) {
  float total = metal::simd_sum(totals[j]);
  float total_2 = metal::simd_sum(totals_2[j]);
  if (lane == 0) {
    uint row = first + j;
    out[row] = half(total * quick_sigmoid(total) * total_2);
  }
}
