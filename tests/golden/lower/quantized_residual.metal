// matvec(results=2, words=3, simdgroups=2)
// quantized_matmul_add: x, residual, packed, scales, biases -> out; grid (32, 32, 1), threadgroup (32, 2, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Digit number `k` of packed words, lowest bits first; it may go on in the next word.
template <uint bits, typename V>
inline uint digit_of(thread const V& words, uint k) {
  uint first = k * bits;
  uint shift = first % 32;
  uint digit = words[first / 32] >> shift;
  if (shift + bits > 32) {
    digit |= words[first / 32 + 1] << (32 - shift);
  }
  return digit & ((1u << bits) - 1);
}

constexpr uint columns = 256;
uint lane = thread_index_in_simdgroup;
uint first = thread_position_in_grid.y * 2;
float totals[2][2] = {};
uint tile = lane * 16;
if (tile < columns) {
  float values[2][16];
  for (uint token = 0; token < 2; ++token) {
    for (uint i = 0; i < 16; i += 4) {
      uint start = tile + i;
      auto x_run = load_run<packed_half4>(x + (token * columns + start));
      for (uint k = 0; k < 4; ++k) {
        values[token][i + k] = x_run[k];
      }
    }
  }
  for (uint j = 0; j < 2; ++j) {
    uint row = first + j;
    auto packed_run = load_run<packed_uint3>(packed + (row * 48 + (tile / 16) * 3));
    float scales_value = scales[row * 8 + tile / 32];
    float biases_value = biases[row * 8 + tile / 32];
    for (uint k = 0; k < 16; ++k) {
      float weight = scales_value * float(digit_of<6>(packed_run, k)) + biases_value;
      for (uint token = 0; token < 2; ++token) {
        totals[token][j] += values[token][k] * weight;
      }
    }
  }
}
for (uint token = 0; token < 2; ++token) {
  for (uint j = 0; j < 2; ++j) {
    float total = metal::simd_sum(totals[token][j]);
    if (lane == 0) {
      uint row = first + j;
      uint place = token * 64 + row;
      out[place] = half(float(residual[place]) + total);
    }
  }
}
