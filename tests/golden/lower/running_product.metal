// scan(lanes=32, rows=4, vector=4)
// cumprod: x -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// A value as fraction and exponent: products of them neither overflow nor vanish.
inline float2 wide_of(float x) {
  int exponent = 0;
  float fraction = metal::frexp(x, exponent);
  return float2(fraction, metal::isfinite(x) ? float(exponent) : 0.0f);
}

// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

inline float2 wide_product(float2 a, float2 b) {
  float2 product = wide_of(a.x * b.x);
  return float2(product.x, product.y + a.y + b.y);
}

// Running wide product before each lane of a simdgroup, from `carry` on, which moves behind the last.
template <typename T>
inline T simd_running_wide_product(T value, thread T& carry, uint simd_lane) {
  for (uint apart = 1; apart < 32; apart *= 2) {
    T below = metal::simd_shuffle_up(value, apart);
    value = simd_lane < apart ? value : wide_product(below, value);
  }
  T below = metal::simd_shuffle_up(value, 1);
  T before = simd_lane == 0 ? carry : wide_product(carry, below);
  carry = wide_product(carry, metal::simd_broadcast(value, 31));
  return before;
}

inline float float_of(float2 value) {
  return metal::ldexp(value.x, int(value.y));
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float2 carry = wide_of(1.0f);
for (uint tile = 0; tile < columns; tile += 128) {
  float2 products[4];
  float2 product = wide_of(1.0f);
  uint start = tile + lane * 4;
  auto x_run = load_run<packed_half4>(x_row + start);
  for (uint k = 0; k < 4; ++k) {
    product = wide_product(product, wide_of(float(x_run[k])));
    products[k] = product;
  }
  float2 before = simd_running_wide_product(product, carry, lane);
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    float running_product = float_of(wide_product(before, products[k]));
    out_run[k] = half(running_product);
  }
  *(device packed_half4*)(out_row + start) = out_run;
}
