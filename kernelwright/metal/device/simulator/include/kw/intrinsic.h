// The compiler intrinsics that MLX's bfloat overloads call by name; their last argument asks for fast math.
#pragma once

#define KW_INTRINSIC_1(name) \
  KW_INLINE float __metal_##name(float x, int) { return kw_math::name(x); }
#define KW_INTRINSIC_2(name) \
  KW_INLINE float __metal_##name(float x, float y, int) { return kw_math::name(x, y); }
#define KW_INTRINSIC_3(name) \
  KW_INLINE float __metal_##name(float x, float y, float z, int) { return kw_math::name(x, y, z); }
KW_INTRINSIC_1(acos)
KW_INTRINSIC_1(acosh)
KW_INTRINSIC_1(asin)
KW_INTRINSIC_1(asinh)
KW_INTRINSIC_1(atan)
KW_INTRINSIC_1(atanh)
KW_INTRINSIC_1(ceil)
KW_INTRINSIC_1(cos)
KW_INTRINSIC_1(cosh)
KW_INTRINSIC_1(cospi)
KW_INTRINSIC_1(exp)
KW_INTRINSIC_1(exp10)
KW_INTRINSIC_1(exp2)
KW_INTRINSIC_1(fabs)
KW_INTRINSIC_1(floor)
KW_INTRINSIC_1(fract)
KW_INTRINSIC_1(log)
KW_INTRINSIC_1(log10)
KW_INTRINSIC_1(log2)
KW_INTRINSIC_1(rint)
KW_INTRINSIC_1(round)
KW_INTRINSIC_1(rsqrt)
KW_INTRINSIC_1(sin)
KW_INTRINSIC_1(sinh)
KW_INTRINSIC_1(sinpi)
KW_INTRINSIC_1(sqrt)
KW_INTRINSIC_1(tan)
KW_INTRINSIC_1(tanh)
KW_INTRINSIC_1(tanpi)
KW_INTRINSIC_1(trunc)
KW_INTRINSIC_2(atan2)
KW_INTRINSIC_2(divide)
KW_INTRINSIC_2(fmax)
KW_INTRINSIC_2(fmin)
KW_INTRINSIC_2(fmod)
KW_INTRINSIC_2(pow)
KW_INTRINSIC_2(powr)
KW_INTRINSIC_3(fmax3)
KW_INTRINSIC_3(fmedian3)
KW_INTRINSIC_3(fmin3)
#undef KW_INTRINSIC_1
#undef KW_INTRINSIC_2
#undef KW_INTRINSIC_3
KW_INLINE float __metal_fma(float x, float y, float z) { return kw_math::fma(x, y, z); }
KW_INLINE float __metal_frexp(float x, thread int* exponent) { return kw_math::frexp(x, exponent); }
KW_INLINE float __metal_ldexp(float x, int k, int) { return kw_math::ldexp(x, k); }
KW_INLINE float __metal_nextafter(float x, float y) { return kw_math::nextafter(x, y); }
