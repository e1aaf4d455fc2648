// rowwise(lanes=32, rows=4, vector=2, cached=1)
// softmax_negative_argsorted_slice_gather_axis_sum: logits -> out0, out1; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Whether a is a new maximum; the first NaN stays, as in MLX.
inline bool exceeds(float a, float b) {
  return a > b || (metal::isnan(a) && !metal::isnan(b));
}

inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}

// Whether `a` comes before `b`, the smallest first; NaN is the largest, of equals the earlier.
inline bool ranks_below(float a, uint place_a, float b, uint place_b) {
  return exceeds(b, a) || (same(a, b) && place_a < place_b);
}

// The smallest value of a simdgroup; NaN is the largest.
inline float simd_smallest(float value) {
  float least = metal::simd_min(metal::isnan(value) ? INFINITY : value);
  return metal::simd_all(metal::isnan(value)) ? NAN : least;
}

constexpr uint columns = 64;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// logits: f32[rows,64]
auto logits_row = logits + row * columns;
float logits_values[2];
float maximum = -INFINITY;
uint start = lane * 2;
auto logits_run = load_run<packed_float2>(logits_row + start);
for (uint k = 0; k < 2; ++k) {
  logits_values[k] = logits_run[k];
  maximum = metal::max(maximum, logits_values[k]);
}
maximum = metal::simd_max(maximum);
float exponentials[2];
float total = 0.0f;
for (uint k = 0; k < 2; ++k) {
  exponentials[k] = metal::precise::exp(logits_values[k] - maximum);
  total += exponentials[k];
}
total = metal::simd_sum(total);
float normalizer = 1.0f / total;
float elements[2];
uint places[2];
float keys[2];
for (uint k = 0; k < 2; ++k) {
  keys[k] = -(exponentials[k] * normalizer);
}
float last = -INFINITY;
uint next = 0;
for (uint j = 0; j < 2; ++j) {
  float best = NAN;
  uint place = columns;
  for (uint k = 0; k < 2; ++k) {
    uint column = start + k;
    float key = keys[k];
    if (ranks_below(last, next, key, column + 1) && ranks_below(key, column, best, place)) {
      best = key;
      place = column;
    }
  }
  last = simd_smallest(best);
  place = metal::simd_min(same(best, last) ? place : columns);
  next = place + 1;
  elements[j] = last;
  places[j] = place;
}
if (lane == 0) {
  float probability = -elements[0];
  float probability_2 = -elements[1];
  float total_2 = probability + probability_2;
  out0[row * 2] = places[0];
  out0[row * 2 + 1] = places[1];
  out1[row * 2] = probability / total_2;
  out1[row * 2 + 1] = probability_2 / total_2;
}
