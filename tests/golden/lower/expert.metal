// matvec(results=1, words=2, simdgroups=4)
// arange_gather_qmm_sigmoid_multiply: x, packed, scales, biases, chosen -> out; grid (32, 64, 6), threadgroup (32, 4, 1)
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

constexpr uint columns = 256;
uint lane = thread_index_in_simdgroup;
uint row = thread_position_in_grid.y;
uint token = thread_position_in_grid.z;
uint chosen_value = chosen[token];
float total = 0.0f;
uint tile = lane * 8;
float values[8];
float sum = 0.0f;
for (uint i = 0; i < 8; i += 4) {
  uint start = tile + i;
  auto x_run = load_run<packed_half4>(x + ((token / 2) * columns + start));
  for (uint k = 0; k < 4; ++k) {
    float value = x_run[k];
    sum += value;
    values[i + k] = value * (1.0f / float(1u << ((i + k) % 2 * 8)));
  }
}
auto packed_run = load_run<packed_uint2>(packed + (chosen_value * 4096 + row * 64 + tile / 4));
float scales_value = scales[chosen_value * 256 + row * 4 + tile / 64];
float biases_value = biases[chosen_value * 256 + row * 4 + tile / 64];
float products = 0.0f;
for (uint k = 0; k < 8; ++k) {
  float digit = float((packed_run[k / 4] >> (k / 2 % 2 * 16)) & (255u << (k % 2 * 8)));
  products += values[k] * digit;
}
total += scales_value * products + biases_value * sum;
total = metal::simd_sum(total);
if (lane == 0) {
  out[token * 64 + row] = half(total * quick_sigmoid(total));
}
