// rowwise(lanes=1, rows=64, cached=0)
// sorted_slice: x -> out; grid ('rows', 1, 1), threadgroup (64, 1, 1)
// Whether a is a new maximum; the first NaN stays, as in MLX.
inline bool exceeds(float a, float b) {
  return a > b || (metal::isnan(a) && !metal::isnan(b));
}

inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}

// Whether `a` comes before `b`, the largest first; NaN is the largest, of equals the earlier.
inline bool ranks_above(float a, uint place_a, float b, uint place_b) {
  return exceeds(a, b) || (same(a, b) && place_a < place_b);
}

constexpr uint columns = 50;
uint row = thread_position_in_grid.x;
// x: f32[rows,50]
auto x_row = x + row * columns;
float elements[3];
float last = NAN;
uint next = 0;
for (uint j = 0; j < 3; ++j) {
  float best = -INFINITY;
  uint place = columns;
  for (uint column = 0; column < columns; ++column) {
    float x_value = x_row[column];
    uint turn = columns - 1 - column;
    if (ranks_above(last, next, x_value, turn + 1) && ranks_above(x_value, turn, best, place)) {
      best = x_value;
      place = turn;
    }
  }
  last = best;
  next = place + 1;
  elements[j] = last;
}
out[row * 3] = elements[2];
out[row * 3 + 1] = elements[1];
out[row * 3 + 2] = elements[0];
