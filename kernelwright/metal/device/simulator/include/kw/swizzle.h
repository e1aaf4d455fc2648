// Named access to the elements of a vector: rgba, and every swizzle of two to four letters.
#pragma once

#include "kw/lane.h"

namespace metal {
template <typename T, int N>
struct vec;
}

// clang's own swizzles cannot be members of a class, and a template with 340 of them would be
// instantiated whole for each type. So they are properties of plain base classes, one for each
// width, whose getters deduce the vector from their explicit object parameter.
template <int... I, typename V>
KW_INLINE constexpr auto kw_swizzle(const V& v) {
  typedef typename V::kw_scalar T;
  return metal::vec<T, sizeof...(I)>(v.kw_at(I)...);
}
template <int... I, typename V, typename W>
KW_INLINE constexpr W kw_assign_swizzle(V& v, W value) {
  constexpr int letters = (0 | ... | (1 << I));
  static_assert(__builtin_popcount(letters) == sizeof...(I),
                "vector is not assignable (contains duplicate components)");
  int from = 0;
  (v.kw_set(I, value.kw_at(from++)), ...);
  return value;
}
template <typename V, int N>
using kw_resized = metal::vec<typename V::kw_scalar, N>;

// Some elements of a vector as one place: the front end writes `v.xy += w` as `v->*kw_letters<0, 1>{} += w`.
template <int... I>
struct kw_letters {};
template <typename V, int... I>
struct kw_place {
  V& vector;
#define KW_ASSIGNMENT(op) \
  template <typename W> \
  KW_INLINE constexpr auto operator op##=(W other) { \
    kw_resized<V, sizeof...(I)> value = kw_swizzle<I...>(vector) op other; \
    return kw_assign_swizzle<I...>(vector, value); \
  }
  KW_ASSIGNMENT(+)
  KW_ASSIGNMENT(-)
  KW_ASSIGNMENT(*)
  KW_ASSIGNMENT(/)
  KW_ASSIGNMENT(%)
  KW_ASSIGNMENT(<<)
  KW_ASSIGNMENT(>>)
  KW_ASSIGNMENT(&)
  KW_ASSIGNMENT(|)
  KW_ASSIGNMENT(^)
#undef KW_ASSIGNMENT
};
template <typename V, int... I>
KW_INLINE constexpr kw_place<V, I...> operator->*(V& vector, kw_letters<I...>) {
  return {vector};
}
template <typename V, int... I>
KW_INLINE constexpr kw_place<V, I...> operator->*(V* vector, kw_letters<I...>) {
  return {*vector};
}

#define KW_LETTER(a, r, i) \
  template <typename V> \
  KW_INLINE constexpr auto kw_get_##r(this const V& v) { \
    return v.kw_at(i); \
  } \
  template <typename V> \
  KW_INLINE constexpr auto kw_put_##r(this V& v, typename V::kw_scalar value) { \
    return v.kw_set(i, value); \
  } \
  KW_PROPERTY(r, r)
#define KW_PAIR(a, r, i, b, s, j) KW_SWIZZLE(2, a##b, r##s, i, j)
#define KW_TRIPLE(a, r, i, b, s, j, c, t, k) KW_SWIZZLE(3, a##b##c, r##s##t, i, j, k)
#define KW_QUADRUPLE(a, r, i, b, s, j, c, t, k, d, u, l) \
  KW_SWIZZLE(4, a##b##c##d, r##s##t##u, i, j, k, l)
#define KW_SWIZZLE(n, xyzw, rgba, ...) KW_SWIZZLE_(n, xyzw, rgba, __VA_ARGS__)
#define KW_SWIZZLE_(n, xyzw, rgba, ...) \
  template <typename V> \
  KW_INLINE constexpr auto kw_get_##xyzw(this const V& v) { \
    return kw_swizzle<__VA_ARGS__>(v); \
  } \
  template <typename V> \
  KW_INLINE constexpr auto kw_put_##xyzw(this V& v, kw_resized<V, n> value) { \
    return kw_assign_swizzle<__VA_ARGS__>(v, value); \
  } \
  KW_PROPERTY(xyzw, xyzw) KW_PROPERTY(rgba, xyzw)
// The declared type has no meaning: an access has the type of its getter.
#define KW_PROPERTY(name, function) \
  __declspec(property(get = kw_get_##function, put = kw_put_##function)) int name;

// KW_<place>_<width>(M, letters so far) applies M to each letter in that place of a swizzle of a
// vector of that width. A macro is not expanded inside itself, so that each place has its own.
#define KW_1_2(M) M(x, r, 0) M(y, g, 1)
#define KW_1_3(M) KW_1_2(M) M(z, b, 2)
#define KW_1_4(M) KW_1_3(M) M(w, a, 3)
#define KW_2_2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define KW_2_3(M, ...) KW_2_2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define KW_2_4(M, ...) KW_2_3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)
#define KW_3_2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define KW_3_3(M, ...) KW_3_2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define KW_3_4(M, ...) KW_3_3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)
#define KW_4_2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define KW_4_3(M, ...) KW_4_2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define KW_4_4(M, ...) KW_4_3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)

#define KW_PAIRS_2(...) KW_2_2(KW_PAIR, __VA_ARGS__)
#define KW_TRIPLES_2(...) KW_2_2(KW_TRIPLES_2_, __VA_ARGS__)
#define KW_TRIPLES_2_(...) KW_3_2(KW_TRIPLE, __VA_ARGS__)
#define KW_QUADRUPLES_2(...) KW_2_2(KW_QUADRUPLES_2_, __VA_ARGS__)
#define KW_QUADRUPLES_2_(...) KW_3_2(KW_QUADRUPLES_2__, __VA_ARGS__)
#define KW_QUADRUPLES_2__(...) KW_4_2(KW_QUADRUPLE, __VA_ARGS__)
struct kw_swizzles_2 {
  KW_1_2(KW_LETTER)
  KW_1_2(KW_PAIRS_2)
  KW_1_2(KW_TRIPLES_2)
  KW_1_2(KW_QUADRUPLES_2)
};
#define KW_PAIRS_3(...) KW_2_3(KW_PAIR, __VA_ARGS__)
#define KW_TRIPLES_3(...) KW_2_3(KW_TRIPLES_3_, __VA_ARGS__)
#define KW_TRIPLES_3_(...) KW_3_3(KW_TRIPLE, __VA_ARGS__)
#define KW_QUADRUPLES_3(...) KW_2_3(KW_QUADRUPLES_3_, __VA_ARGS__)
#define KW_QUADRUPLES_3_(...) KW_3_3(KW_QUADRUPLES_3__, __VA_ARGS__)
#define KW_QUADRUPLES_3__(...) KW_4_3(KW_QUADRUPLE, __VA_ARGS__)
struct kw_swizzles_3 {
  KW_1_3(KW_LETTER)
  KW_1_3(KW_PAIRS_3)
  KW_1_3(KW_TRIPLES_3)
  KW_1_3(KW_QUADRUPLES_3)
};
#define KW_PAIRS_4(...) KW_2_4(KW_PAIR, __VA_ARGS__)
#define KW_TRIPLES_4(...) KW_2_4(KW_TRIPLES_4_, __VA_ARGS__)
#define KW_TRIPLES_4_(...) KW_3_4(KW_TRIPLE, __VA_ARGS__)
#define KW_QUADRUPLES_4(...) KW_2_4(KW_QUADRUPLES_4_, __VA_ARGS__)
#define KW_QUADRUPLES_4_(...) KW_3_4(KW_QUADRUPLES_4__, __VA_ARGS__)
#define KW_QUADRUPLES_4__(...) KW_4_4(KW_QUADRUPLE, __VA_ARGS__)
struct kw_swizzles_4 {
  KW_1_4(KW_LETTER)
  KW_1_4(KW_PAIRS_4)
  KW_1_4(KW_TRIPLES_4)
  KW_1_4(KW_QUADRUPLES_4)
};

template <int N>
struct kw_swizzles;
template <>
struct kw_swizzles<2> : kw_swizzles_2 {};
template <>
struct kw_swizzles<3> : kw_swizzles_3 {};
template <>
struct kw_swizzles<4> : kw_swizzles_4 {};
