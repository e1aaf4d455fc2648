// Metal's address spaces and function qualifiers in C++17 with SYCL's address spaces.
#pragma once

#include "kw/abi.h"

// global_device and global_host do not convert into each other, as Metal's device and constant
// do not; every space converts to the default one, so one `this` serves all.
#define device __attribute__((opencl_global_device))
#define constant const __attribute__((opencl_global_host))
#define threadgroup __attribute__((opencl_local))
#define threadgroup_imageblock __attribute__((opencl_local))
#define thread

// Stand in for the qualifier of a member function. clang's enable_if makes the overloads distinct,
// and the longest list of conditions wins, so that the `thread` overload serves every object.
#define KW_MEMBER_IF __attribute__((enable_if(true, "")))
#define KW_MEMBER_device KW_MEMBER_IF
#define KW_MEMBER_threadgroup KW_MEMBER_IF KW_MEMBER_IF
#define KW_MEMBER_threadgroup_imageblock KW_MEMBER_threadgroup
#define KW_MEMBER_constant KW_MEMBER_IF KW_MEMBER_IF KW_MEMBER_IF
#define KW_MEMBER_thread KW_MEMBER_IF KW_MEMBER_IF KW_MEMBER_IF KW_MEMBER_IF

// The value of a function constant, known when a pipeline is made: clang folds it and takes it for
// no constant expression, so that no array has its size and no template takes it.
#define KW_SPECIALIZED(value) ((long)(char*)1 ? (value) : (value))

// `this` of such a member function, which clang gives the default space.
#define KW_THIS(space) ((space kw_object<decltype(this)>*)this)

#define METAL_FUNC inline __attribute__((always_inline))
#define METAL_INTERNAL inline __attribute__((always_inline))
#define METAL_CONST constant
#define METAL_ALIGN(n) __attribute__((aligned(n)))
#define METAL_PURE __attribute__((pure))
#define METAL_CONST_ARG(x)
// Without debug lines of its own, so that what is inlined is reported at the caller's.
#define KW_INLINE inline __attribute__((always_inline, nodebug))

// A conditional whose operands are `device S` and `S` has no common type. The front end writes
// `c ? (kw_rvalue, (a)) : b`: for classes that comma gives a const value in the default space, to
// which the other operand always converts; for everything else it is the built-in comma.
struct kw_rvalue_tag {};
constexpr kw_rvalue_tag kw_rvalue{};

template <typename T>
struct kw_bare {
  typedef T type;
};
template <typename T>
struct kw_bare<const T> : kw_bare<T> {};
#define KW_BARE(space) \
  template <typename T> \
  struct kw_bare<__attribute__((space)) T> : kw_bare<T> {}; \
  template <typename T> \
  struct kw_bare<const __attribute__((space)) T> : kw_bare<T> {};
KW_BARE(opencl_global_device)
KW_BARE(opencl_global_host)
KW_BARE(opencl_local)
#undef KW_BARE

// That T of an overload for `thread T*` names no other space.
template <typename T>
constexpr bool kw_in_thread = true;
#define KW_ELSEWHERE(space) \
  template <typename T> \
  constexpr bool kw_in_thread<__attribute__((space)) T> = false; \
  template <typename T> \
  constexpr bool kw_in_thread<const __attribute__((space)) T> = false;
KW_ELSEWHERE(opencl_global_device)
KW_ELSEWHERE(opencl_global_host)
KW_ELSEWHERE(opencl_local)
#undef KW_ELSEWHERE

template <typename T>
struct kw_pointed;
template <typename T>
struct kw_pointed<T*> {
  typedef T type;
};
template <typename T>
using kw_object = typename kw_pointed<T>::type;

// A text in constant memory.
template <unsigned long size>
struct kw_chars {
  char letters[size];
  constexpr kw_chars(const char (&text)[size]) : letters{} {
    for (unsigned long i = 0; i < size; i++) letters[i] = text[i];
  }
};
template <kw_chars text>
constant constexpr kw_chars<sizeof(text.letters)> kw_text = text;

template <bool condition, typename T = int>
struct kw_if {};
template <typename T>
struct kw_if<true, T> {
  typedef T type;
};

template <typename T, typename kw_if<__is_class(T) || __is_union(T)>::type = 0>
KW_INLINE constexpr const typename kw_bare<T>::type operator,(kw_rvalue_tag, const T& value) {
  return value;
}
