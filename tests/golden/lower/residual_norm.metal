// rowwise(lanes=32, rows=4, vector=4, cached=1)
// add_cast_square_mean_rsqrt_multiply: x, residual, weight -> out0, out1; grid (32, 'rows', 1), threadgroup (32, 4, 1)

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
// residual: f16[rows,512]
auto residual_row = residual + row * columns;
// out0: f16[rows,512]
auto out0_row = out0 + row * columns;
// out1: f16[rows,512]
auto out1_row = out1 + row * columns;
float sums[16];
float total = 0.0f;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    sums[i * 4 + k] = float(x_row[column]) + float(residual_row[column]);
    total += sums[i * 4 + k] * sums[i * 4 + k];
  }
}
total = metal::simd_sum(total);
float inverse_root = metal::precise::rsqrt(total / columns + 1e-05f);
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    out0_row[column] = half(sums[i * 4 + k]);
    out1_row[column] = half(sums[i * 4 + k] * inverse_root * float(weight[column]));
  }
}
