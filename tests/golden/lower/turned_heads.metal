// elementwise(vector=4, threads=256)
// multiply_subtract_add_concatenate: qkv, cos_in -> out0, out1; grid (8, 16, 6), threadgroup (8, 16, 2)
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
if (plane < 4) {
  uint start = thread_position_in_grid.x * 4;
  auto qkv_run = load_run<packed_half4>(qkv + (row * 384 + plane * 64 + start));
  auto cos_in_run = load_run<packed_half4>(cos_in + (row * 32 + start));
  auto qkv_run_2 = load_run<packed_half4>(qkv + (row * 384 + plane * 64 + start + 32));
  packed_half4 out0_run;
  packed_half4 out0_run_2;
  for (uint k = 0; k < 4; ++k) {
    float qkv_value = qkv_run[k];
    float cos_in_value = cos_in_run[k];
    float qkv_value_2 = qkv_run_2[k];
    out0_run[k] = half(qkv_value * cos_in_value - qkv_value_2);
    out0_run_2[k] = half(qkv_value + qkv_value_2 * cos_in_value);
  }
  *(device packed_half4*)(out0 + (plane * 1024 + row * 64 + start)) = out0_run;
  *(device packed_half4*)(out0 + (plane * 1024 + row * 64 + start + 32)) = out0_run_2;
} else {
  uint plane_2 = plane - 4;
  uint start = thread_position_in_grid.x * 4;
  auto qkv_run = load_run<packed_half4>(qkv + (row * 384 + plane_2 * 64 + start + 256));
  auto cos_in_run = load_run<packed_half4>(cos_in + (row * 32 + start));
  auto qkv_run_2 = load_run<packed_half4>(qkv + (row * 384 + plane_2 * 64 + start + 288));
  packed_half4 out1_run;
  packed_half4 out1_run_2;
  for (uint k = 0; k < 4; ++k) {
    float qkv_value = qkv_run[k];
    float cos_in_value = cos_in_run[k];
    float qkv_value_2 = qkv_run_2[k];
    out1_run[k] = half(qkv_value * cos_in_value - qkv_value_2);
    out1_run_2[k] = half(qkv_value + qkv_value_2 * cos_in_value);
  }
  *(device packed_half4*)(out1 + (plane_2 * 1024 + row * 64 + start)) = out1_run;
  *(device packed_half4*)(out1 + (plane_2 * 1024 + row * 64 + start + 32)) = out1_run_2;
}
