// How the elements of a vector are stored and computed: clang's own vectors underneath metal::vec.
#pragma once

#include "kw/scalar.h"

template <typename T, int N>
struct kw_native {
  typedef T type __attribute__((ext_vector_type(N)));
};
template <typename T, int N>
using kw_native_t = typename kw_native<T, N>::type;

// `stored` holds a vec's elements, arithmetic runs in `computed`. They differ from T for bool, whose
// clang vectors are packed into bits, and for bfloat, which is a class.
template <typename T>
struct kw_lane {
  typedef T stored;
  typedef T computed;
  KW_INLINE static constexpr T load(T value) { return value; }
  KW_INLINE static constexpr T store(T value) { return value; }
};
template <>
struct kw_lane<bool> {
  typedef uchar stored;
  typedef uchar computed;
  KW_INLINE static constexpr bool load(uchar value) { return value != 0; }
  KW_INLINE static constexpr uchar store(bool value) { return value; }
};
template <>
struct kw_lane<bfloat> {
  typedef ushort stored;
  typedef float computed;
  KW_INLINE static constexpr bfloat load(ushort bits) { return bfloat::from_bits(bits); }
  KW_INLINE static constexpr ushort store(bfloat value) { return value.bits; }
};

template <typename T, int N>
using kw_stored_t = kw_native_t<typename kw_lane<T>::stored, N>;
template <typename T, int N>
using kw_computed_t = kw_native_t<typename kw_lane<T>::computed, N>;

template <typename T, int N>
KW_INLINE constexpr kw_computed_t<T, N> kw_widen(kw_stored_t<T, N> v) {
  if constexpr (__is_same(T, bfloat)) {
    return (kw_native_t<float, N>)(__builtin_convertvector(v, kw_native_t<uint, N>) << 16);
  } else {
    return v;
  }
}

template <typename T, int N>
KW_INLINE constexpr kw_stored_t<T, N> kw_narrow(kw_computed_t<T, N> v) {
  if constexpr (__is_same(T, bfloat)) {
    kw_native_t<uint, N> word = (kw_native_t<uint, N>)v;
    kw_native_t<uint, N> rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    kw_native_t<uint, N> quiet = (word >> 16) | 0x40u;
    kw_native_t<uint, N> nan = (kw_native_t<uint, N>)((word & 0x7fffffffu) > 0x7f800000u);
    return __builtin_convertvector((nan & quiet) | (~nan & rounded), kw_native_t<ushort, N>);
  } else {
    return v;
  }
}

// A comparison's mask of 0 and -1 as the bytes of a bool vector.
template <int N, typename M>
KW_INLINE constexpr kw_native_t<uchar, N> kw_mask(M mask) {
  return __builtin_convertvector(mask, kw_native_t<uchar, N>) & uchar(1);
}
