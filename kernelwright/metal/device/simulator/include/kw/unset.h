// Variables that a thread declares without a value, as the sanitizer sees them.
#pragma once

#include "kw/abi.h"
#include "kw/padding.h"

#ifdef KW_SANITIZE
#define KW_UNSET(variable, number) kw_leave_unset(variable, number);

// A struct that may have bytes which no member takes: no vector, nor what its bits alone tell.
template <typename T>
constexpr bool kw_may_have_padding =
    __is_class(T) && !__has_unique_object_representations(T) && !requires { typename T::kw_scalar; };

// Fills a variable with words that only the runtime knows, so that results that hang on them differ
// between launches. A class with a constructor has set itself.
template <typename T>
KW_INLINE constexpr void kw_leave_unset(T& variable, kw_uint number) {
  if (__builtin_is_constant_evaluated()) return;
  if constexpr (__is_array(T)) {
    for (auto& element : variable) kw_leave_unset(element, number);
  } else if constexpr (__is_same(T, bool)) {
    variable = kw_unset(number) & 1;
  } else if constexpr (__is_integral(T)) {
    // Not so many rounds of a loop that it seems to have no end; of the word's sign in any width.
    const kw_uint word = kw_unset(number);
    const int count = (int)(word & 0x37b);
    variable = (T)(word >> 31 ? -count : count);
  } else if constexpr (__is_trivially_constructible(T)) {
    kw_uint words[(sizeof(T) + 3) / 4];
    for (kw_uint& word : words) word = kw_unset(number);
    if constexpr (kw_may_have_padding<T>) {
      // No result is to hang on padding, wherever a copy of it comes to lie.
      unsigned char taken[sizeof(T)] = {};
      kw_take(kw_taken{taken, sizeof(T)}, (T*)taken);
      for (kw_ulong i = 0; i < sizeof(T); i++) ((unsigned char*)words)[i] *= taken[i];
    }
    __builtin_memcpy((void*)&variable, words, sizeof(T));
  }
}
#else
#define KW_UNSET(variable, number)
#endif
