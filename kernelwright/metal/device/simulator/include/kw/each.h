// Macros that stamp out the overloads of a function, one for each type that Metal declares it for.
#pragma once

#include <metal_vector>

// Plain overloads rather than templates: a scalar argument converts to the vector of the others, and
// mixed scalar types are ambiguous, both as in Metal.
#define KW_EACH_FLOAT(M) M(float) M(half)
#define KW_EACH_INTEGER(M) \
  M(char) M(int8_t) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
#define KW_EACH_WIDTH(M, T) M(T, 2) M(T, 3) M(T, 4)
#define KW_EACH_FLOAT_VECTOR(M) KW_EACH_WIDTH(M, float) KW_EACH_WIDTH(M, half)
#define KW_EACH_INTEGER_VECTOR(M) \
  KW_EACH_WIDTH(M, char) \
  KW_EACH_WIDTH(M, uchar) \
  KW_EACH_WIDTH(M, short) \
  KW_EACH_WIDTH(M, ushort) \
  KW_EACH_WIDTH(M, int) \
  KW_EACH_WIDTH(M, uint) \
  KW_EACH_WIDTH(M, long) \
  KW_EACH_WIDTH(M, ulong)

namespace metal {

// Applies a function of scalars to each lane; unrolled and inlined, it vectorises where that pays.
template <typename R, int N, typename F, typename... A>
KW_INLINE constexpr vec<R, N> kw_map(F function, const A&... arguments) {
  kw_stored_t<R, N> elements = kw_stored_t<R, N>(0);
  for (int i = 0; i < N; i++) elements[i] = kw_lane<R>::store(function(arguments.kw_at(i)...));
  return vec<R, N>(elements, kw_rvalue);
}

}  // namespace metal

// Vector overloads from the scalar one of the same name, for one to three arguments of one type.
#define KW_MAP_1(name, R, T, N) \
  KW_INLINE constexpr vec<R, N> name(vec<T, N> x) { \
    return kw_map<R, N>([](T a) { return R(name(a)); }, x); \
  }
#define KW_MAP_2(name, R, T, N) \
  KW_INLINE constexpr vec<R, N> name(vec<T, N> x, vec<T, N> y) { \
    return kw_map<R, N>([](T a, T b) { return R(name(a, b)); }, x, y); \
  }
#define KW_MAP_3(name, R, T, N) \
  KW_INLINE constexpr vec<R, N> name(vec<T, N> x, vec<T, N> y, vec<T, N> z) { \
    return kw_map<R, N>([](T a, T b, T c) { return R(name(a, b, c)); }, x, y, z); \
  }
