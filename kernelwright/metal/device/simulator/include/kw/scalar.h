// Metal's scalar types under their global names, with bfloat as a class that rounds every operation.
#pragma once

#include "kw/space.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef _Float16 half;

template <typename T>
constexpr bool kw_is_integer = __is_integral(T);

// A class rather than __bf16: the conversion from float must be explicit, each operation rounds
// once to nearest even, and no library call stands in the way of vectorising.
struct bfloat {
  ushort bits;

  bfloat() = default;
  KW_INLINE constexpr explicit bfloat(float value) : bits(round(value)) {}
  KW_INLINE constexpr explicit bfloat(half value) : bits(round(float(value))) {}
  KW_INLINE constexpr explicit bfloat(double value) : bits(round(float(value))) {}
  template <typename I, typename kw_if<kw_is_integer<I>>::type = 0>
  KW_INLINE constexpr bfloat(I value) : bits(round(float(value))) {}

  // Implicit to float alone: with a path to int, `c ? x : 0` would have two common types.
  template <typename F, typename kw_if<__is_same(F, float)>::type = 0>
  KW_INLINE constexpr operator F() const {
    return __builtin_bit_cast(float, uint(bits) << 16);
  }
  template <typename U, typename kw_if<!__is_same(U, float) && __is_arithmetic(U)>::type = 0>
  KW_INLINE constexpr explicit operator U() const {
    return U(__builtin_bit_cast(float, uint(bits) << 16));
  }

  KW_INLINE static constexpr ushort round(float value) {
    uint word = __builtin_bit_cast(uint, value);
    bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    return ushort(nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  KW_INLINE static constexpr bfloat from_bits(ushort bits) {
    bfloat result(0);
    result.bits = bits;
    return result;
  }

  KW_INLINE constexpr bfloat operator+() const { return *this; }
  KW_INLINE constexpr bfloat operator-() const { return from_bits(bits ^ 0x8000); }
  KW_INLINE constexpr bfloat& operator++() { return *this = bfloat(float(*this) + 1.0f); }
  KW_INLINE constexpr bfloat& operator--() { return *this = bfloat(float(*this) - 1.0f); }
  KW_INLINE constexpr bfloat operator++(int) {
    bfloat old = *this;
    ++*this;
    return old;
  }
  KW_INLINE constexpr bfloat operator--(int) {
    bfloat old = *this;
    --*this;
    return old;
  }
  template <typename U>
  KW_INLINE constexpr bfloat& operator+=(U other) {
    return *this = bfloat(*this + other);
  }
  template <typename U>
  KW_INLINE constexpr bfloat& operator-=(U other) {
    return *this = bfloat(*this - other);
  }
  template <typename U>
  KW_INLINE constexpr bfloat& operator*=(U other) {
    return *this = bfloat(*this * other);
  }
  template <typename U>
  KW_INLINE constexpr bfloat& operator/=(U other) {
    return *this = bfloat(*this / other);
  }
};

// What the simulator writes around a divisor that clang sees to be zero, or too wide a shift's
// amount (see conversion.py).
template <typename T>
KW_INLINE T kw_operand(T value) {
  volatile T hidden = value;
  return hidden;
}

// What the simulator writes around a bfloat that becomes an integer by itself (see conversion.py);
// in a template it may be something else.
template <typename T>
KW_INLINE constexpr auto kw_number(const T& value) {
  typedef typename kw_bare<T>::type Bare;
  if constexpr (__is_same(__remove_cv(Bare), bfloat)) {
    return float(value);
  } else {
    return Bare(value);
  }
}

#define KW_BFLOAT_ARITHMETIC(op) \
  KW_INLINE constexpr bfloat operator op(bfloat a, bfloat b) { return bfloat(float(a) op float(b)); } \
  template <typename I, typename kw_if<kw_is_integer<I>>::type = 0> \
  KW_INLINE constexpr bfloat operator op(bfloat a, I b) { \
    return a op bfloat(b); \
  } \
  template <typename I, typename kw_if<kw_is_integer<I>>::type = 0> \
  KW_INLINE constexpr bfloat operator op(I a, bfloat b) { \
    return bfloat(a) op b; \
  }
KW_BFLOAT_ARITHMETIC(+)
KW_BFLOAT_ARITHMETIC(-)
KW_BFLOAT_ARITHMETIC(*)
KW_BFLOAT_ARITHMETIC(/)
#undef KW_BFLOAT_ARITHMETIC

#define KW_BFLOAT_COMPARISON(op) \
  KW_INLINE constexpr bool operator op(bfloat a, bfloat b) { return float(a) op float(b); } \
  template <typename I, typename kw_if<kw_is_integer<I>>::type = 0> \
  KW_INLINE constexpr bool operator op(bfloat a, I b) { \
    return a op bfloat(b); \
  } \
  template <typename I, typename kw_if<kw_is_integer<I>>::type = 0> \
  KW_INLINE constexpr bool operator op(I a, bfloat b) { \
    return bfloat(a) op b; \
  }
KW_BFLOAT_COMPARISON(==)
KW_BFLOAT_COMPARISON(!=)
KW_BFLOAT_COMPARISON(<)
KW_BFLOAT_COMPARISON(<=)
KW_BFLOAT_COMPARISON(>)
KW_BFLOAT_COMPARISON(>=)
#undef KW_BFLOAT_COMPARISON

namespace metal {
using ::bfloat;
using ::half;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using ::ulong;
using ::ushort;
}  // namespace metal
