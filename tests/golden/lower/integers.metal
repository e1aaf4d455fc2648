// elementwise(vector=4)
// floor_divide_remainder: x, y -> out0, out1; grid (6, 1, 1), threadgroup (256, 1, 1)
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
for (uint index = start; index < metal::min(start + 4, 21u); ++index) {
  int x_value = x[index];
  int y_value = y[index];
  out0[index] = floor_quotient(x_value, y_value);
  out1[index] = floor_modulus(x_value, y_value);
}
