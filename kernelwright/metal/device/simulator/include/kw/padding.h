// Which bytes of a buffer's elements belong to a member; the others are padding.
#pragma once

#include "kw/space.h"

#ifdef KW_SANITIZE
#define KW_UNWATCHED __attribute__((no_sanitize("thread", "alignment", "undefined"), nodebug))

// The bytes of one object, set to 1 where a member takes them.
struct kw_taken {
  unsigned char* bytes;
  kw_ulong size;

  KW_UNWATCHED void take(const void* member, kw_ulong count) const {
    kw_ulong first = (kw_ulong)member - (kw_ulong)bytes;
    // A bit field comes as a copy, which lies elsewhere: then every byte counts as taken.
    if (first > size || count > size - first) first = 0, count = size;
    for (kw_ulong i = first; i < first + count; i++) bytes[i] = 1;
  }
};

// What lies in the default space and has a size.
template <typename T>
constexpr bool kw_has_bytes =
    kw_in_thread<T> && !__is_void(T) && !__is_function(T) && requires { sizeof(T); };

template <typename T>
KW_UNWATCHED inline void kw_take(const kw_taken& taken, T* object);

// Takes what __builtin_dump_struct says of each member: a format, its type, its name and its value,
// or its address where printf has no format for it.
struct kw_take_member {
  template <typename... A>
  KW_UNWATCHED void operator()(const kw_taken& taken, const char* format, const A&... said) const {
    if constexpr (sizeof...(A) > 3) last(taken, format, said...);
  }

  template <typename T, typename... A>
  KW_UNWATCHED static void last(const kw_taken& taken, const char* format, const T& said,
                                const A&... more) {
    if constexpr (sizeof...(A) > 0)
      last(taken, format, more...);
    else
      member(taken, format, said);
  }
  template <typename T>
  KW_UNWATCHED static void member(const kw_taken& taken, const char* format, const T& said) {
    if constexpr (__is_pointer(T))
      if constexpr (kw_has_bytes<kw_object<T>>)
        if (is_address(format)) return kw_take(taken, said);
    taken.take((const void*)__builtin_addressof(said), sizeof(T));
  }
  KW_UNWATCHED static bool is_address(const char* format) {
    while (*format && *format != '*') format++;
    return *format;
  }
};

template <typename T>
KW_UNWATCHED inline void kw_take(const kw_taken& taken, T* object) {
  if constexpr (__is_array(T)) {
    for (auto& element : *object) kw_take(taken, __builtin_addressof(element));
  } else if constexpr (__is_class(T)) {
    __builtin_dump_struct(object, kw_take_member(), taken);
  } else {
    taken.take((const void*)object, sizeof(T));
  }
}

template <typename T>
struct kw_bound {
  static constexpr bool is_memory = false;
};
template <typename T>
struct kw_bound<T*> {
  static constexpr bool is_memory = true;
  typedef T type;
};
template <typename T>
struct kw_bound<T&> : kw_bound<T*> {};

template <typename T>
KW_UNWATCHED inline kw_ulong kw_take_pointee(unsigned char* bytes, kw_ulong capacity) {
  typedef __remove_cv(typename kw_bare<__remove_cv(T)>::type) object;
  if constexpr (kw_has_bytes<object>) {
    if (sizeof(object) > capacity) return 0;
    kw_take(kw_taken{bytes, sizeof(object)}, (object*)bytes);
    return sizeof(object);
  }
  return 0;
}

template <typename P>
KW_UNWATCHED inline void kw_visit(kw_uint& place, kw_ulong& size, kw_uint wanted,
                                  unsigned char* bytes, kw_ulong capacity) {
  if constexpr (kw_bound<P>::is_memory)
    if (place++ == wanted) size = kw_take_pointee<typename kw_bound<P>::type>(bytes, capacity);
}

// Takes the members of what one of a kernel's parameters points to, by its place among those that
// point to memory, and returns the size of it; 0 where it has none or exceeds the capacity.
template <typename R, typename... A>
KW_UNWATCHED inline kw_ulong kw_take_pointees(R (*)(A...), kw_uint wanted, unsigned char* bytes,
                                              kw_ulong capacity) {
  kw_uint place = 0;
  kw_ulong size = 0;
  (kw_visit<A>(place, size, wanted, bytes, capacity), ...);
  return size;
}
#endif
