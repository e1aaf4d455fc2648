// Named access to the elements of a vector: every swizzle of two to four letters as a property.
#pragma once

// clang's own swizzles cannot be members of a class; a property has a getter and a setter, and a
// member function of a class template is compiled only where it is used. xyzw and rgba share them.
#define KW_LETTER(a, r, i) \
  KW_INLINE constexpr T kw_get_##a() const { return this->kw_at(i); } \
  KW_INLINE constexpr T kw_put_##a(T value) { return this->kw_set(i, value); } \
  __declspec(property(get = kw_get_##a, put = kw_put_##a)) T a; \
  __declspec(property(get = kw_get_##a, put = kw_put_##a)) T r;

#define KW_PAIR(a, r, i, b, s, j) \
  KW_INLINE constexpr vec<T, 2> kw_get_##a##b() const { return {this->kw_at(i), this->kw_at(j)}; } \
  KW_INLINE constexpr vec<T, 2> kw_put_##a##b(vec<T, 2> v) { return this->template kw_assign<i, j>(v); } \
  KW_SWIZZLE(2, a##b, r##s)

#define KW_TRIPLE(a, r, i, b, s, j, c, t, k) \
  KW_INLINE constexpr vec<T, 3> kw_get_##a##b##c() const { \
    return {this->kw_at(i), this->kw_at(j), this->kw_at(k)}; \
  } \
  KW_INLINE constexpr vec<T, 3> kw_put_##a##b##c(vec<T, 3> v) { return this->template kw_assign<i, j, k>(v); } \
  KW_SWIZZLE(3, a##b##c, r##s##t)

#define KW_QUADRUPLE(a, r, i, b, s, j, c, t, k, d, u, l) \
  KW_INLINE constexpr vec<T, 4> kw_get_##a##b##c##d() const { \
    return {this->kw_at(i), this->kw_at(j), this->kw_at(k), this->kw_at(l)}; \
  } \
  KW_INLINE constexpr vec<T, 4> kw_put_##a##b##c##d(vec<T, 4> v) { \
    return this->template kw_assign<i, j, k, l>(v); \
  } \
  KW_SWIZZLE(4, a##b##c##d, r##s##t##u)

#define KW_SWIZZLE(n, xyzw, rgba) KW_SWIZZLE_(n, xyzw, rgba)
#define KW_SWIZZLE_(n, xyzw, rgba) \
  __declspec(property(get = kw_get_##xyzw, put = kw_put_##xyzw)) vec<T, n> xyzw; \
  __declspec(property(get = kw_get_##xyzw, put = kw_put_##xyzw)) vec<T, n> rgba;

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
#define KW_SWIZZLES_2 \
  KW_1_2(KW_LETTER) KW_1_2(KW_PAIRS_2) KW_1_2(KW_TRIPLES_2) KW_1_2(KW_QUADRUPLES_2)
#define KW_PAIRS_3(...) KW_2_3(KW_PAIR, __VA_ARGS__)
#define KW_TRIPLES_3(...) KW_2_3(KW_TRIPLES_3_, __VA_ARGS__)
#define KW_TRIPLES_3_(...) KW_3_3(KW_TRIPLE, __VA_ARGS__)
#define KW_QUADRUPLES_3(...) KW_2_3(KW_QUADRUPLES_3_, __VA_ARGS__)
#define KW_QUADRUPLES_3_(...) KW_3_3(KW_QUADRUPLES_3__, __VA_ARGS__)
#define KW_QUADRUPLES_3__(...) KW_4_3(KW_QUADRUPLE, __VA_ARGS__)
#define KW_SWIZZLES_3 \
  KW_1_3(KW_LETTER) KW_1_3(KW_PAIRS_3) KW_1_3(KW_TRIPLES_3) KW_1_3(KW_QUADRUPLES_3)
#define KW_PAIRS_4(...) KW_2_4(KW_PAIR, __VA_ARGS__)
#define KW_TRIPLES_4(...) KW_2_4(KW_TRIPLES_4_, __VA_ARGS__)
#define KW_TRIPLES_4_(...) KW_3_4(KW_TRIPLE, __VA_ARGS__)
#define KW_QUADRUPLES_4(...) KW_2_4(KW_QUADRUPLES_4_, __VA_ARGS__)
#define KW_QUADRUPLES_4_(...) KW_3_4(KW_QUADRUPLES_4__, __VA_ARGS__)
#define KW_QUADRUPLES_4__(...) KW_4_4(KW_QUADRUPLE, __VA_ARGS__)
#define KW_SWIZZLES_4 \
  KW_1_4(KW_LETTER) KW_1_4(KW_PAIRS_4) KW_1_4(KW_TRIPLES_4) KW_1_4(KW_QUADRUPLES_4)
