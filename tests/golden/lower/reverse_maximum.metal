// scan(lanes=32, rows=4, vector=1)
// cummax_subtract: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// The larger of two values; NaN wins, as in MLX.
inline float larger(float a, float b) {
  return metal::isnan(a) || a > b ? a : b;
}

// Running maximum before each lane of a simdgroup, from `carry` on, which moves behind the last.
template <typename T>
inline T simd_running_maximum(T value, thread T& carry, uint simd_lane) {
  for (uint apart = 1; apart < 32; apart *= 2) {
    T below = metal::simd_shuffle_up(value, apart);
    value = simd_lane < apart ? value : larger(below, value);
  }
  T below = metal::simd_shuffle_up(value, 1);
  T before = simd_lane == 0 ? carry : larger(carry, below);
  carry = larger(carry, metal::simd_broadcast(value, 31));
  return before;
}

constexpr uint columns = 50;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f32[rows,50]
auto x_row = x + row * columns;
// out: f32[rows,50]
auto out_row = out + row * columns;
float carry = -INFINITY;
for (uint tile = 0; tile < columns; tile += 32) {
  float maximum = -INFINITY;
  uint start = tile + lane;
  uint column = columns - 1 - start;
  if (start < columns) {
    maximum = x_row[column];
  }
  float before = simd_running_maximum(maximum, carry, lane);
  if (start < columns) {
    float running_maximum = larger(before, maximum);
    out_row[column] = running_maximum - x_row[column];
  }
}
