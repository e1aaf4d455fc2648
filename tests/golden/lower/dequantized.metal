// elementwise(vector=4, threads=256)
// dequantize: packed, scales, biases -> out; grid (128, 'rows', 1), threadgroup (128, 2, 1)

uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 4;
uint packed_value = packed[row * 64 + start / 8];
float scales_value = scales[row * 8 + start / 64];
float biases_value = biases[row * 8 + start / 64];
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  uint column = start + k;
  float scaled = float((packed_value >> ((column % 8) * 4)) & 15u) * scales_value;
  out_run[k] = half(scaled + biases_value);
}
*(device packed_half4*)(out + (row * 512 + start)) = out_run;
