// Variables that a thread declares without a value, as the sanitizer sees them.
#pragma once

#include "kw/abi.h"

#ifdef KW_SANITIZE
#define KW_UNSET(variable, number) kw_leave_unset(variable, number);

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
    // Not so many rounds of a loop that it seems to have no end.
    variable = kw_unset(number) & 0x7ff;
  } else if constexpr (__is_trivially_constructible(T)) {
    kw_uint words[(sizeof(T) + 3) / 4];
    for (kw_uint& word : words) word = kw_unset(number);
    __builtin_memcpy((void*)&variable, words, sizeof(T));
  }
}
#else
#define KW_UNSET(variable, number)
#endif
