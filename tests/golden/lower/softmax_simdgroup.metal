// rowwise(lanes=32, rows=4, vector=4, cached=1)
// softmax: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float x_values[16];
float maximum = -INFINITY;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    x_values[i * 4 + k] = x_row[column];
    maximum = metal::max(maximum, x_values[i * 4 + k]);
  }
}
maximum = metal::simd_max(maximum);
float exponentials[16];
float total = 0.0f;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    exponentials[i * 4 + k] = metal::precise::exp(x_values[i * 4 + k] - maximum);
    total += exponentials[i * 4 + k];
  }
}
total = metal::simd_sum(total);
float normalizer = 1.0f / total;
for (uint i = 0; i < 4; ++i) {
  uint start = (i * 32 + lane) * 4;
  for (uint k = 0; k < 4; ++k) {
    uint column = start + k;
    out_row[column] = half(exponentials[i * 4 + k] * normalizer);
  }
}
