// scan(lanes=1, rows=64, vector=1)
// multiply_cumsum_subtract: x -> out; grid ('rows', 1, 1), threadgroup (64, 1, 1)

constexpr uint columns = 8;
uint row = thread_position_in_grid.x;
// x: f32[rows,8]
auto x_row = x + row * columns;
// out: f32[rows,8]
auto out_row = out + row * columns;
float sum = 0.0f;
for (uint column = 0; column < columns; ++column) {
  sum += x_row[column] * 2.0f;
  out_row[column] = sum - x_row[column];
}
