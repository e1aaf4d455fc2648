// rowwise(lanes=16, rows=8, vector=8, cached=1)
// cast_square_mean_add_rsqrt_multiply: x -> out; grid (16, 'rows', 1), threadgroup (16, 8, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Eight neighbours, aligned like one of them: Metal's own packed vectors end at four.
template <typename T>
struct packed_eight {
  T values[8];
  thread T& operator[](uint i) {
    return values[i];
  }
};

// Sum over those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_sum(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}

constexpr uint columns = 128;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
// x: f16[rows,128]
auto x_row = x + row * columns;
// out: f16[rows,128]
auto out_row = out + row * columns;
float x_values[8];
float total = 0.0f;
uint start = lane * 8;
auto x_run = load_run<packed_eight<half>>(x_row + start);
for (uint k = 0; k < 8; ++k) {
  x_values[k] = x_run[k];
  total += x_values[k] * x_values[k];
}
total = lanes_sum<16>(total);
float inverse_root = metal::precise::rsqrt(total / columns + 1e-05f);
packed_eight<half> out_run;
for (uint k = 0; k < 8; ++k) {
  out_run[k] = half(x_values[k] * inverse_root);
}
*(device packed_eight<half>*)(out_row + start) = out_run;
