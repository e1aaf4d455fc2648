// Metal's fast:: functions of one float: what the specification says they compute, and how far off.
//
// Metal Shading Language Specification 4, 8.4: errors of fast math. What the table writes as a formula is that formula,
// with its overflows; what it gives an error is exact here, or moved by all of it where the worst case is asked for.
#pragma once

#include "kw/scalar_math.h"

namespace kw_math {

// A text that asks for the worst case specialises it.
template <int> struct fast_setting { static constexpr bool is_worst = false; };

// Fast functions read and write denormals as zeros.
KW_INLINE constexpr float flushed(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}
// Which way an error goes: the argument decides, and neighbours are not alike.
KW_INLINE constexpr bool leans_up(float x) {
  return (__builtin_bit_cast(uint, x) * 2654435761u) >> 31;
}
template <int K>
KW_INLINE constexpr float within_ulps(float y, float x, float ulps) {
  if constexpr (fast_setting<K>::is_worst) {
    uint bits = __builtin_bit_cast(uint, y), sign = bits & 0x80000000u;
    int magnitude = int(bits ^ sign);
    if (magnitude == 0 || magnitude >= 0x7f800000) return y;
    magnitude += leans_up(x) ? int(ulps) : -int(ulps);
    magnitude = magnitude < 0 ? 0 : magnitude > 0x7f7fffff ? 0x7f7fffff : magnitude;
    y = __builtin_bit_cast(float, uint(magnitude) | sign);
  }
  return flushed(y);
}
template <int K>
KW_INLINE constexpr float within(float y, float x, float error) {
  if constexpr (fast_setting<K>::is_worst) y += leans_up(x) ? error : -error;
  return flushed(y);
}

namespace quick {

template <int K> KW_INLINE float exp(float x) {
  x = flushed(x);
  return within_ulps<K>(kw_math::exp(x), x, 3.0f + __builtin_fminf(floor(2.0f * fabs(x)), 512.0f));
}
template <int K> KW_INLINE float exp2(float x) {
  x = flushed(x);
  return within_ulps<K>(kw_math::exp2(x), x, 3.0f + __builtin_fminf(floor(2.0f * fabs(x)), 512.0f));
}
template <int K> KW_INLINE float exp10(float x) { return quick::exp2<K>(x * 3.32192809488736235f); }
// Around one the error is absolute.
#define KW_FAST_LOGARITHM(name) \
  template <int K> KW_INLINE float name(float x) { \
    x = flushed(x); \
    float y = kw_math::name(x); \
    return x >= 0.5f && x <= 2.0f ? within<K>(y, x, 0x1p-21f) : within_ulps<K>(y, x, 3.0f); \
  }
KW_FAST_LOGARITHM(log)
KW_FAST_LOGARITHM(log2)
KW_FAST_LOGARITHM(log10)
#undef KW_FAST_LOGARITHM

// Beyond half a turn the specification promises nothing but more; taken to grow with the argument.
template <int K> KW_INLINE float turned(float y, float x, float half_turn) {
  return within<K>(y, x, 0x1p-13f * __builtin_fmaxf(1.0f, fabs(x) / half_turn));
}
template <int K> KW_INLINE float sin(float x) { return turned<K>(kw_math::sin(x), x, 3.14159265f); }
template <int K> KW_INLINE float cos(float x) { return turned<K>(kw_math::cos(x), x, 3.14159265f); }
template <int K> KW_INLINE float sinpi(float x) { return turned<K>(kw_math::sinpi(x), x, 1.0f); }
template <int K> KW_INLINE float cospi(float x) { return turned<K>(kw_math::cospi(x), x, 1.0f); }
template <int K> KW_INLINE float tan(float x) { return quick::sin<K>(x) * (1.0f / quick::cos<K>(x)); }
template <int K> KW_INLINE float tanpi(float x) {
  return quick::sinpi<K>(x) * (1.0f / quick::cospi<K>(x));
}

#define KW_FAST_ARC(name) \
  template <int K> KW_INLINE float name(float x) { return within_ulps<K>(kw_math::name(x), x, 5.0f); }
KW_FAST_ARC(acos)
KW_FAST_ARC(asin)
KW_FAST_ARC(atan)
#undef KW_FAST_ARC
template <int K> KW_INLINE float atan2(float y, float x) {
  return within_ulps<K>(kw_math::atan2(y, x), y, 5.0f);
}

template <int K> KW_INLINE float rsqrt(float x) {
  if constexpr (!fast_setting<K>::is_worst) return flushed(kw_math::rsqrt(flushed(x)));
  return within_ulps<K>(float(1.0 / __builtin_sqrt(double(x))), x, 2.0f);
}
template <int K> KW_INLINE float sqrt(float x) {
  if constexpr (!fast_setting<K>::is_worst) return flushed(kw_math::sqrt(flushed(x)));
  return flushed(x) == 0.0f || x > MAXFLOAT ? flushed(x) : x * quick::rsqrt<K>(x);
}
// Twice the error is odd: two and a half ulps are two here.
template <int K> KW_INLINE float divide(float x, float y) {
  return within_ulps<K>(kw_math::divide(flushed(x), flushed(y)), x, 2.0f);
}
template <int K> KW_INLINE float fmod(float x, float y) { return x - y * trunc(x / y); }

// Formulas of the specification: pow of a negative number is a NaN, tanh overflows.
template <int K> KW_INLINE float pow(float x, float y) { return quick::exp2<K>(y * quick::log2<K>(x)); }
template <int K> KW_INLINE float powr(float x, float y) { return quick::pow<K>(x, y); }
template <int K> KW_INLINE float sinh(float x) {
  return 0.5f * (quick::exp<K>(x) - quick::exp<K>(-x));
}
template <int K> KW_INLINE float cosh(float x) {
  return 0.5f * (quick::exp<K>(x) + quick::exp<K>(-x));
}
template <int K> KW_INLINE float tanh(float x) {
  float t = quick::exp<K>(2.0f * x);
  return (t - 1.0f) / (t + 1.0f);
}
template <int K> KW_INLINE float asinh(float x) {
  return quick::log<K>(x + quick::sqrt<K>(x * x + 1.0f));
}
template <int K> KW_INLINE float acosh(float x) {
  return quick::log<K>(x + quick::sqrt<K>(x * x - 1.0f));
}
template <int K> KW_INLINE float atanh(float x) {
  return 0.5f * quick::log<K>((1.0f + x) / (1.0f - x));
}

}  // namespace quick
}  // namespace kw_math
