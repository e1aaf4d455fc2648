// rowwise(lanes=32, rows=4, vector=1, cached=1)
// softmax: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)

constexpr uint columns = 50;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f32[rows,50]
auto x_row = x + row * columns;
// out: f32[rows,50]
auto out_row = out + row * columns;
float x_values[2];
float maximum = -INFINITY;
for (uint i = 0; i < 2; ++i) {
  uint column = i * 32 + lane;
  if (column < columns) {
    x_values[i] = x_row[column];
    maximum = metal::max(maximum, x_values[i]);
  }
}
maximum = metal::simd_max(maximum);
float exponentials[2];
float total = 0.0f;
for (uint i = 0; i < 2; ++i) {
  uint column = i * 32 + lane;
  if (column < columns) {
    exponentials[i] = metal::precise::exp(x_values[i] - maximum);
    total += exponentials[i];
  }
}
total = metal::simd_sum(total);
float normalizer = 1.0f / total;
for (uint i = 0; i < 2; ++i) {
  uint column = i * 32 + lane;
  if (column < columns) {
    out_row[column] = exponentials[i] * normalizer;
  }
}
