// Metal's math functions of one float; half, bfloat and vectors are made from them.
#pragma once

#include <metal_limits>

#include "kw/scalar.h"

// In counting builds a special function is one operation: not inlined, not seen by the block
// counter, and reported by itself.
#ifdef KW_COUNT
#define KW_SPECIAL_FUNCTION inline __attribute__((noinline, no_sanitize("coverage")))
#ifdef KW_FAST_MATH
#define KW_COUNT_SPECIAL kw_count(KW_SPECIAL, 1), kw_count(KW_QUICK, 1);
#else
#define KW_COUNT_SPECIAL kw_count(KW_SPECIAL, 1);
#endif
#else
#define KW_SPECIAL_FUNCTION inline __attribute__((always_inline))
#define KW_COUNT_SPECIAL
#endif

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define HUGE_VALH half(__builtin_inff())
#define HUGE_VALBF bfloat(__builtin_inff())
#define MAXFLOAT 0x1.fffffep127f
#define MAXHALF half(65504.0f)
#define MAXBFLOAT bfloat(0x1.fep127f)
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)

#define KW_CONSTANT(name, value) \
  constexpr constant float name##_F = value##f; \
  constexpr constant half name##_H = half(value##f); \
  constexpr constant bfloat name##_BF = bfloat(value##f);
KW_CONSTANT(M_E, 2.71828182845904523536)
KW_CONSTANT(M_LOG2E, 1.44269504088896340736)
KW_CONSTANT(M_LOG10E, 0.434294481903251827651)
KW_CONSTANT(M_LN2, 0.693147180559945309417)
KW_CONSTANT(M_LN10, 2.30258509299404568402)
KW_CONSTANT(M_PI, 3.14159265358979323846)
KW_CONSTANT(M_PI_2, 1.57079632679489661923)
KW_CONSTANT(M_PI_4, 0.785398163397448309616)
KW_CONSTANT(M_1_PI, 0.318309886183790671538)
KW_CONSTANT(M_2_PI, 0.636619772367581343076)
KW_CONSTANT(M_2_SQRTPI, 1.12837916709551257390)
KW_CONSTANT(M_SQRT2, 1.41421356237309504880)
KW_CONSTANT(M_SQRT1_2, 0.707106781186547524401)
#undef KW_CONSTANT

namespace kw_math {

KW_INLINE constexpr float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

#define KW_LIBRARY_1(name) \
  KW_SPECIAL_FUNCTION float name(float x) { \
    KW_COUNT_SPECIAL return __builtin_##name##f(x); \
  }
KW_LIBRARY_1(acos)
KW_LIBRARY_1(acosh)
KW_LIBRARY_1(asin)
KW_LIBRARY_1(asinh)
KW_LIBRARY_1(atan)
KW_LIBRARY_1(atanh)
KW_LIBRARY_1(cos)
KW_LIBRARY_1(cosh)
KW_LIBRARY_1(log)
KW_LIBRARY_1(log10)
KW_LIBRARY_1(log2)
KW_LIBRARY_1(sin)
KW_LIBRARY_1(sinh)
KW_LIBRARY_1(sqrt)
KW_LIBRARY_1(tan)
KW_LIBRARY_1(tanh)
#undef KW_LIBRARY_1
// e^r * 2^n for |r| <= ln(2)/2, by the polynomial of Cephes' expf; scaled twice, so that results
// near both ends of the range come out. Written here because loops vectorise over no library call.
KW_INLINE float exp_scaled(float r, float n) {
  float p = fma(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r) + 1.0f;
  int whole = int(n), half_of = whole >> 1;
  float first = __builtin_bit_cast(float, uint(half_of + 127) << 23);
  float second = __builtin_bit_cast(float, uint(whole - half_of + 127) << 23);
  return p * first * second;
}
// Beyond these the result is infinite or zero; a NaN fails both comparisons and stays.
KW_INLINE float bounded(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
KW_SPECIAL_FUNCTION float exp(float x) {
  KW_COUNT_SPECIAL x = bounded(x, -104.0f, 89.0f);
  float n = __builtin_rintf(x * 1.44269504088896341f);
  return exp_scaled(fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x)), n);
}
KW_SPECIAL_FUNCTION float exp2(float x) {
  KW_COUNT_SPECIAL x = bounded(x, -150.0f, 129.0f);
  float n = __builtin_rintf(x);
  return exp_scaled((x - n) * 0.693147180559945309f, n);
}
KW_SPECIAL_FUNCTION float exp10(float x) {
  KW_COUNT_SPECIAL return float(__builtin_exp2(double(x) * 3.32192809488736234787));
}
KW_SPECIAL_FUNCTION float rsqrt(float x) {
  KW_COUNT_SPECIAL return 1.0f / __builtin_sqrtf(x);
}
KW_SPECIAL_FUNCTION float atan2(float y, float x) {
  KW_COUNT_SPECIAL return __builtin_atan2f(y, x);
}
KW_SPECIAL_FUNCTION float pow(float x, float y) {
  KW_COUNT_SPECIAL return __builtin_powf(x, y);
}
// Defined for x >= 0 alone.
KW_SPECIAL_FUNCTION float powr(float x, float y) {
  KW_COUNT_SPECIAL return x < 0.0f ? NAN : __builtin_powf(x, y);
}
KW_SPECIAL_FUNCTION float fmod(float x, float y) {
  KW_COUNT_SPECIAL return __builtin_fmodf(x, y);
}

KW_INLINE float ceil(float x) { return __builtin_ceilf(x); }
KW_INLINE float floor(float x) { return __builtin_floorf(x); }
KW_INLINE float trunc(float x) { return __builtin_truncf(x); }
KW_INLINE float rint(float x) { return __builtin_rintf(x); }
KW_INLINE float round(float x) { return __builtin_roundf(x); }
KW_INLINE constexpr float fabs(float x) { return __builtin_fabsf(x); }
KW_INLINE constexpr float copysign(float x, float y) { return __builtin_copysignf(x, y); }
KW_INLINE constexpr float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
KW_INLINE constexpr float fmin(float x, float y) { return __builtin_fminf(x, y); }
KW_INLINE constexpr float divide(float x, float y) { return x / y; }
KW_INLINE float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }
KW_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }
KW_INLINE float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
KW_INLINE float frexp(float x, int* exponent) {
  *exponent = 0;
  return __builtin_frexpf(x, exponent);
}
KW_INLINE float fdim(float x, float y) {
  return x != x || y != y ? NAN : x > y ? x - y : 0.0f;
}
// Below one even where x - floor(x) rounds up to it; `below` is one's lower neighbour.
KW_INLINE float fract(float x, float below = 0x1.fffffep-1f) {
  float part = __builtin_isinf(x) ? 0.0f : x - floor(x);
  return part > below ? below : part;
}
KW_INLINE constexpr float fmedian3(float x, float y, float z) {
  return fmax(fmin(x, y), fmin(fmax(x, y), z));
}
KW_INLINE constexpr float fmax3(float x, float y, float z) { return fmax(x, fmax(y, z)); }
KW_INLINE constexpr float fmin3(float x, float y, float z) { return fmin(x, fmin(y, z)); }

// Reduces the argument before multiplying by pi, so that whole and half turns are exact.
KW_SPECIAL_FUNCTION float sinpi(float x) {
  KW_COUNT_SPECIAL double turn = double(x) - 2.0 * __builtin_rint(double(x) * 0.5);
  double near = turn > 0.5 ? 1.0 - turn : turn < -0.5 ? -1.0 - turn : turn;
  return float(__builtin_sin(near * 3.14159265358979323846));
}
KW_SPECIAL_FUNCTION float cospi(float x) {
  KW_COUNT_SPECIAL double turn = __builtin_fabs(double(x) - 2.0 * __builtin_rint(double(x) * 0.5));
  return float(__builtin_sin((0.5 - turn) * 3.14159265358979323846));
}
KW_SPECIAL_FUNCTION float tanpi(float x) {
  KW_COUNT_SPECIAL double turn = double(x) - __builtin_rint(double(x));
  if (__builtin_fabs(turn) == 0.5) return copysign(INFINITY, float(turn));
  return float(__builtin_tan(turn * 3.14159265358979323846));
}

}  // namespace kw_math
