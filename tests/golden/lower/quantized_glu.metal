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
float sum = 0.0f;
for (uint i = 0; i < 16; i += 4) {
  uint start = tile + i;
  auto x_run = load_run<packed_half4>(x + start);
  for (uint k = 0; k < 4; ++k) {
    float value = x_run[k];
    sum += value;
    values[i + k] = value * (1.0f / float(1u << ((i + k) % 4 * 4)));
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
  float products = 0.0f;
  float products_2 = 0.0f;
  for (uint k = 0; k < 16; ++k) {
    float digit = float((gate_run[k / 8] >> (k / 4 % 2 * 16)) & (15u << (k % 4 * 4)));
    products += values[k] * digit;
    float digit_2 = float((up_run[k / 8] >> (k / 4 % 2 * 16)) & (15u << (k % 4 * 4)));
    products_2 += values[k] * digit_2;
  }
  totals[j] += gate_scales_value * products + gate_biases_value * sum;
  totals_2[j] += up_scales_value * products_2 + up_biases_value * sum;
}
for (uint j = 0; j < 4; ++j) {
  float total = metal::simd_sum(totals[j]);
  float total_2 = metal::simd_sum(totals_2[j]);
  if (lane == 0) {
    uint row = first + j;
    out[row] = half(total * quick_sigmoid(total) * total_2);
  }
}
