// rowwise(lanes=1, rows=64, cached=0)
// softmax: x -> out; grid ('rows', 1, 1), threadgroup (64, 1, 1)

constexpr uint columns = 5;
uint row = thread_position_in_grid.x;
// x: f32[rows,5]
auto x_row = x + row * columns;
// out: f32[rows,5]
auto out_row = out + row * columns;
float maximum = -INFINITY;
for (uint column = 0; column < columns; ++column) {
  maximum = metal::max(maximum, x_row[column]);
}
float total = 0.0f;
for (uint column = 0; column < columns; ++column) {
  total += metal::precise::exp(x_row[column] - maximum);
}
float normalizer = 1.0f / total;
for (uint column = 0; column < columns; ++column) {
  out_row[column] = metal::precise::exp(x_row[column] - maximum) * normalizer;
}
