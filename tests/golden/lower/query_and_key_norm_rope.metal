// rowwise(lanes=16, rows=8, vector=4, cached=1)
// cast_square_mean_add_rsqrt_multiply_arange_exp_c: q, query_weight, offset_in, k_in, key_weight -> out0, out1; grid (16, 24, 1), threadgroup (16, 8, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Sum over those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_sum(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}

if (thread_position_in_grid.y < 16) {
  uint row = thread_position_in_grid.y;
  uint lane = thread_position_in_threadgroup.x;
  // q: f16[1,1,16,128]
  auto q_row = q + row * 128;
  // out0: f16[1,16,1,128]
  auto out0_row = out0 + row * 128;
  float q_values[4];
  float q_values_2[4];
  float total = 0.0f;
  uint start = lane * 4;
  auto q_run = load_run<packed_half4>(q_row + start);
  auto q_run_2 = load_run<packed_half4>(q_row + (start + 64));
  for (uint k = 0; k < 4; ++k) {
    q_values[k] = q_run[k];
    q_values_2[k] = q_run_2[k];
    total += q_values[k] * q_values[k] + q_values_2[k] * q_values_2[k];
  }
  total = lanes_sum<16>(total);
  float inverse_root = metal::precise::rsqrt(total / 128 + 1e-06f);
  float sum = float(0) + float(offset_in);
  auto query_weight_run = load_run<packed_half4>(query_weight + start);
  auto query_weight_run_2 = load_run<packed_half4>(query_weight + (start + 64));
  packed_half4 out0_run;
  packed_half4 out0_run_2;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    float product = q_values[k] * inverse_root * float(query_weight_run[k]);
    float product_2 = sum * metal::precise::exp(-float(column) * 0.14391157f);
    float cosine = metal::precise::cos(product_2);
    float product_3 = q_values_2[k] * inverse_root * float(query_weight_run_2[k]);
    float sine = metal::precise::sin(product_2);
    out0_run[k] = half(product * cosine - product_3 * sine);
    out0_run_2[k] = half(product * sine + product_3 * cosine);
  }
  *(device packed_half4*)(out0_row + start) = out0_run;
  *(device packed_half4*)(out0_row + (start + 64)) = out0_run_2;
} else {
  uint row = (thread_position_in_grid.y - 16);
  uint lane = thread_position_in_threadgroup.x;
  // k_in: f16[1,1,8,128]
  auto k_in_row = k_in + row * 128;
  // out1: f16[1,8,1,128]
  auto out1_row = out1 + row * 128;
  float k_in_values[4];
  float k_in_values_2[4];
  float total = 0.0f;
  uint start = lane * 4;
  auto k_in_run = load_run<packed_half4>(k_in_row + start);
  auto k_in_run_2 = load_run<packed_half4>(k_in_row + (start + 64));
  for (uint k = 0; k < 4; ++k) {
    k_in_values[k] = k_in_run[k];
    k_in_values_2[k] = k_in_run_2[k];
    total += k_in_values[k] * k_in_values[k] + k_in_values_2[k] * k_in_values_2[k];
  }
  total = lanes_sum<16>(total);
  float inverse_root = metal::precise::rsqrt(total / 128 + 1e-06f);
  float sum = float(0) + float(offset_in);
  auto key_weight_run = load_run<packed_half4>(key_weight + start);
  auto key_weight_run_2 = load_run<packed_half4>(key_weight + (start + 64));
  packed_half4 out1_run;
  packed_half4 out1_run_2;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    float product = k_in_values[k] * inverse_root * float(key_weight_run[k]);
    float product_2 = sum * metal::precise::exp(-float(column) * 0.14391157f);
    float cosine = metal::precise::cos(product_2);
    float product_3 = k_in_values_2[k] * inverse_root * float(key_weight_run_2[k]);
    float sine = metal::precise::sin(product_2);
    out1_run[k] = half(product * cosine - product_3 * sine);
    out1_run_2[k] = half(product * sine + product_3 * cosine);
  }
  *(device packed_half4*)(out1_row + start) = out1_run;
  *(device packed_half4*)(out1_row + (start + 64)) = out1_run_2;
}
