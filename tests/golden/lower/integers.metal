// elementwise(vector=4)
// floor_divide_remainder: x, y -> out0, out1; grid (6, 1, 1), threadgroup (256, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Division rounded towards negative infinity.
template <typename T>
inline T floor_quotient(T a, T b) {
  T quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The integer remainder with the divisor's sign.
template <typename T>
inline T floor_modulus(T a, T b) {
  T remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

uint start = thread_position_in_grid.x * 4;
if (start <= 17) {
  auto x_run = load_run<packed_int4>(x + start);
  auto y_run = load_run<packed_int4>(y + start);
  packed_int4 out0_run;
  packed_int4 out1_run;
  for (uint k = 0; k < 4; ++k) {
    int x_value = x_run[k];
    int y_value = y_run[k];
    out0_run[k] = floor_quotient(x_value, y_value);
    out1_run[k] = floor_modulus(x_value, y_value);
  }
  *(device packed_int4*)(out0 + start) = out0_run;
  *(device packed_int4*)(out1 + start) = out1_run;
} else {
  for (uint index = start; index < 21; ++index) {
    int x_value = x[index];
    int y_value = y[index];
    out0[index] = floor_quotient(x_value, y_value);
    out1[index] = floor_modulus(x_value, y_value);
  }
}
