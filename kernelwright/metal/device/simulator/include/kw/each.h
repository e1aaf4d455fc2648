// Macros that state Metal's functions: plain overloads for scalars, one template for all vectors.
#pragma once

#include <metal_vector>

// Plain overloads for scalars, so that mixed types are ambiguous as in Metal.
#define KW_EACH_FLOAT(M) M(float) M(half)
#define KW_EACH_INTEGER(M) \
  M(char) M(int8_t) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)

namespace metal {

// A vector of what the lanes give: bool from tests, unsigned from absdiff, else their own type.
template <typename V, typename R>
using kw_vector_of = vec<R, V::kw_count>;

template <typename V>
concept kw_floats = kw_is_float<typename V::kw_scalar>;
template <typename V>
concept kw_integers = kw_is_integer<typename V::kw_scalar> && !__is_same(typename V::kw_scalar, bool);
template <typename V>
concept kw_numbers = kw_floats<V> || kw_integers<V>;

}  // namespace metal

// The function of vectors that applies the scalar one of the same name to each lane. `kind` is a
// concept above; scalars among the arguments stand for vectors of themselves.
#define KW_LANES_1(kind, name) \
  template <typename A, typename V = kw_joint<A>> \
    requires kind<V> \
  KW_INLINE constexpr auto name(A a) { \
    V x(a); \
    kw_vector_of<V, decltype(name(x.kw_at(0)))> result = {}; \
    _Pragma("unroll") for (int i = 0; i < V::kw_count; i++) result.kw_set(i, name(x.kw_at(i))); \
    return result; \
  }
#define KW_LANES_2(kind, name) \
  template <typename A, typename B, typename V = kw_joint<A, B>> \
    requires(kind<V> && kw_alike<A, B>) \
  KW_INLINE constexpr auto name(A a, B b) { \
    V x(a), y(b); \
    kw_vector_of<V, decltype(name(x.kw_at(0), y.kw_at(0)))> result = {}; \
    _Pragma("unroll") for (int i = 0; i < V::kw_count; i++) result.kw_set(i, name(x.kw_at(i), y.kw_at(i))); \
    return result; \
  }
#define KW_LANES_3(kind, name) \
  template <typename A, typename B, typename C, typename V = kw_joint<A, B, C>> \
    requires(kind<V> && kw_alike<A, B, C>) \
  KW_INLINE constexpr auto name(A a, B b, C c) { \
    V x(a), y(b), z(c); \
    kw_vector_of<V, decltype(name(x.kw_at(0), y.kw_at(0), z.kw_at(0)))> result = {}; \
    _Pragma("unroll") for (int i = 0; i < V::kw_count; i++) \
      result.kw_set(i, name(x.kw_at(i), y.kw_at(i), z.kw_at(i))); \
    return result; \
  }
