"""Functions of numbers that Metal lacks, or has with other edge cases."""

NUMBERS = {
    "larger": """\
// The larger of two values; NaN wins, as in MLX.
inline float larger(float a, float b) {
  return metal::isnan(a) || a > b ? a : b;
}
""",
    "smaller": """\
// The smaller of two values; NaN wins, as in MLX.
inline float smaller(float a, float b) {
  return metal::isnan(a) || a < b ? a : b;
}
""",
    "exceeds": """\
// Whether a is a new maximum; the first NaN stays, as in MLX.
inline bool exceeds(float a, float b) {
  return a > b || (metal::isnan(a) && !metal::isnan(b));
}
""",
    "undercuts": """\
// Whether a is a new minimum; the first NaN stays, as in MLX.
inline bool undercuts(float a, float b) {
  return a < b || (metal::isnan(a) && !metal::isnan(b));
}
""",
    "same": """\
inline bool same(float a, float b) {
  return a == b || (metal::isnan(a) && metal::isnan(b));
}
""",
    "sigmoid": """\
// exp() of a negative magnitude alone: no overflow, and no cancellation near 0 and 1.
inline float sigmoid(float x) {
  float decay = metal::precise::exp(-metal::abs(x));
  return (x < 0.0f ? decay : 1.0f) / (1.0f + decay);
}
""",
    "quick_sigmoid": """\
// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}
""",
    "scale_for": """\
// A power of two by which a divisor has a normal inverse, and its dividends keep their digits.
inline float scale_for(float divisor) {
  float magnitude = metal::abs(divisor);
  return magnitude > 0x1p64f ? 0x1p-64f : magnitude < 0x1p-64f ? 0x1p64f : 1.0f;
}
""",
    "shared_quotient": """\
// x / divisor from the divisor's inverse, rounded as a division is where |x| > 1e-30: the last step
// of P. Markstein, "Computation of elementary functions on the IBM RISC System/6000" (1990).
inline float shared_quotient(float x, float divisor, float inverse) {
  float near = x * inverse;
  float rest = metal::fma(-near, divisor, x);
  // Infinities and zeros leave no rest.
  return metal::isfinite(rest) ? metal::fma(rest, inverse, near) : near;
}
""",
    "logaddexp": """\
inline float logaddexp(float a, float b) {
  if (metal::isnan(a) || metal::isnan(b)) {
    return NAN;
  }
  float high = metal::max(a, b);
  float low = metal::min(a, b);
  // Equal infinities would subtract to NaN.
  return metal::isinf(low) || metal::isinf(high)
      ? high : high + log1p_of(metal::precise::exp(low - high));
}
""",
    "quick_tanh": """\
// Exact to a few roundings of float, by its series where the difference would cancel: for results
// of 16 bits.
inline float quick_tanh(float x) {
  float s = x * x;
  float series = metal::fma(-0.053968254f, s, 0.13333334f);
  series = metal::fma(metal::fma(series, s, -0.33333334f), s * x, x);
  // exp(2 x) by a power of two: 2 / log(2) in one product.
  float inverse = metal::fast::divide(1.0f, 1.0f + metal::fast::exp2(2.885390082f * x));
  float far = metal::fma(-2.0f, inverse, 1.0f);
  return metal::abs(x) < 0.25f ? series : far;
}
""",
    "quick_logaddexp": """\
// Exact to a few roundings of float: for results of 16 bits.
inline float quick_logaddexp(float a, float b) {
  float decay = metal::fast::exp(-metal::abs(a - b));
  float series = metal::fma(-0.25f, decay, 0.33333333f);
  series = metal::fma(series, decay, -0.5f);
  series = metal::fma(series * decay, decay, decay);
  float rest = decay < 0.06f ? series : metal::fast::log(1.0f + decay);
  // Equal infinities would subtract to NaN.
  return metal::isinf(a) && a == b ? a : metal::max(a, b) + rest;
}
""",
    "floor_quotient": """\
// Division rounded towards negative infinity.
template <typename T>
inline T floor_quotient(T a, T b) {
  T quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
""",
    "floor_remainder": """\
// The remainder with the divisor's sign.
inline float floor_remainder(float a, float b) {
  float remainder = metal::fmod(a, b);
  return remainder != 0.0f && (remainder < 0.0f) != (b < 0.0f) ? remainder + b : remainder;
}
""",
    "floor_modulus": """\
// The integer remainder with the divisor's sign.
template <typename T>
inline T floor_modulus(T a, T b) {
  T remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
""",
    "integer_power": """\
template <typename T>
inline T integer_power(T base, T exponent) {
  T result = 1;
  for (; exponent > 0; exponent >>= 1) {
    result = exponent & 1 ? result * base : result;
    base *= base;
  }
  return result;
}
""",
    "sign_of": """\
template <typename T>
inline T sign_of(T x) {
  return T(x > 0) - T(x < 0);
}
""",
    "log1p_of": """\
// log(1 + x); the correction is what 1 + x lost to rounding.
inline float log1p_of(float x) {
  float sum = 1.0f + x;
  float correction = (x - (sum - 1.0f)) / sum;
  return metal::precise::log(sum) + (metal::isfinite(correction) ? correction : 0.0f);
}
""",
    "expm1_of": """\
// exp(x) - 1; a minimax polynomial where the difference would cancel.
inline float expm1_of(float x) {
  if (metal::abs(x) >= 0.75f) {
    return metal::precise::exp(x) - 1.0f;
  }
  float p = 2.477849e-05f;
  p = metal::fma(p, x, 2.0138867e-04f);
  p = metal::fma(p, x, 1.3890982e-03f);
  p = metal::fma(p, x, 8.332371e-03f);
  p = metal::fma(p, x, 4.1666593e-02f);
  p = metal::fma(p, x, 1.6666676e-01f);
  p = metal::fma(p, x, 0.5f);
  return metal::fma(x * x, p, x);
}
""",
    "erf_of": """\
// The error function to about one unit in the last place: a minimax polynomial in x * x below
// 1, and one of log(1 - erf(x)) above.
inline float erf_of(float x) {
  float t = metal::abs(x);
  if (t < 1.0f) {
    float s = x * x;
    float p = 7.889119e-05f;
    p = metal::fma(p, s, -8.020841e-04f);
    p = metal::fma(p, s, 5.189535e-03f);
    p = metal::fma(p, s, -2.6854444e-02f);
    p = metal::fma(p, s, 0.112836f);
    p = metal::fma(p, s, -0.37612626f);
    p = metal::fma(p, s, 0.12837917f);
    return metal::fma(x, p, x);
  }
  // erf(4) rounds to 1; the clamp keeps NaN, which metal::min would drop.
  t = t > 4.0f ? 4.0f : t;
  float p = 1.8607174e-06f;
  p = metal::fma(p, t, -3.0197858e-05f);
  p = metal::fma(p, t, 1.9180648e-04f);
  p = metal::fma(p, t, -4.2188022e-04f);
  p = metal::fma(p, t, -2.0040323e-03f);
  p = metal::fma(p, t, 0.021538997f);
  p = metal::fma(p, t, -0.10441471f);
  p = metal::fma(p, t, -0.63597834f);
  p = metal::fma(p, t, -1.128489f);
  return metal::copysign(1.0f - metal::precise::exp(p * t), x);
}
""",
    "erfinv_of": """\
// The inverse error function: minimax polynomials in w = -log(1 - x * x), as Giles arranged.
inline float erfinv_of(float x) {
  float w = -metal::precise::log(metal::fma(-x, x, 1.0f));
  float p;
  if (w < 5.0f) {
    w -= 2.5f;
    p = -8.791057e-09f;
    p = metal::fma(p, w, 2.3232644e-08f);
    p = metal::fma(p, w, 4.6617066e-07f);
    p = metal::fma(p, w, -3.4627049e-06f);
    p = metal::fma(p, w, -4.9633477e-06f);
    p = metal::fma(p, w, 2.1834444e-04f);
    p = metal::fma(p, w, -1.2527419e-03f);
    p = metal::fma(p, w, -4.177387e-03f);
    p = metal::fma(p, w, 0.24664028f);
    p = metal::fma(p, w, 1.5014094f);
  } else if (metal::isinf(w)) {
    p = w;
  } else {
    w = metal::precise::sqrt(w) - 3.0f;
    p = 1.02782564e-04f;
    p = metal::fma(p, w, -2.9635237e-04f);
    p = metal::fma(p, w, -3.857901e-05f);
    p = metal::fma(p, w, 1.4684867e-03f);
    p = metal::fma(p, w, -3.6067716e-03f);
    p = metal::fma(p, w, 5.693392e-03f);
    p = metal::fma(p, w, -7.6352875e-03f);
    p = metal::fma(p, w, 9.444526e-03f);
    p = metal::fma(p, w, 1.0016749f);
    p = metal::fma(p, w, 2.8329768f);
  }
  return p * x;
}
""",
    "ranks_above": """\
// Whether `a` comes before `b`, the largest first; NaN is the largest, of equals the earlier.
inline bool ranks_above(float a, uint place_a, float b, uint place_b) {
  return exceeds(a, b) || (same(a, b) && place_a < place_b);
}
""",
    "ranks_below": """\
// Whether `a` comes before `b`, the smallest first; NaN is the largest, of equals the earlier.
inline bool ranks_below(float a, uint place_a, float b, uint place_b) {
  return exceeds(b, a) || (same(a, b) && place_a < place_b);
}
""",
}
"""Their definitions, by name."""
