// How the front end's entry points fill a kernel's parameters from kw_thread.
#pragma once

#include "kw/abi.h"
#include "kw/padding.h"

// Unpacking the arguments is the simulator's work, which the sanitizer need not see.
#ifdef KW_SANITIZE
#define KW_UNSEEN __attribute__((no_sanitize("thread", "alignment")))
#else
#define KW_UNSEEN
#endif

// Vectors are built from their elements, scalars take the first: `uint i [[thread_position_in_grid]]`.
template <typename T>
struct kw_components {
  KW_UNSEEN static T from(struct kw_uint3 v) { return T(v.x); }
};
template <typename T>
struct kw_components<metal::vec<T, 2>> {
  KW_UNSEEN static metal::vec<T, 2> from(struct kw_uint3 v) { return metal::vec<T, 2>(T(v.x), T(v.y)); }
};
template <typename T>
struct kw_components<metal::vec<T, 3>> {
  KW_UNSEEN static metal::vec<T, 3> from(struct kw_uint3 v) {
    return metal::vec<T, 3>(T(v.x), T(v.y), T(v.z));
  }
};
template <typename T>
KW_UNSEEN inline T kw_attribute(struct kw_uint3 v) {
  return kw_components<metal::remove_cv_t<T>>::from(v);
}
template <typename T>
KW_UNSEEN inline T kw_attribute(kw_uint v) {
  return T(v);
}

// The device's limit of a threadgroup's memory, which ends a launch, not a compilation: the warning
// shows size and limit.
template <kw_ulong size, kw_ulong limit>
  requires(size <= limit)
constexpr bool kw_threadgroup_memory() {
  return true;
}
template <kw_ulong size, kw_ulong limit>
  requires(size > limit)
[[deprecated]] constexpr bool kw_threadgroup_memory() {
  return true;
}

// The thread `step` places further along x in the same row of the same threadgroup.
inline struct kw_thread kw_along_row(const struct kw_thread* first, kw_uint step) {
  struct kw_thread t = *first;
  t.position_in_grid.x += step;
  t.position_in_threadgroup.x += step;
  t.index_in_threadgroup += step;
  t.simdgroup = t.index_in_threadgroup / KW_SIMD_WIDTH;
  t.lane = t.index_in_threadgroup % KW_SIMD_WIDTH;
  return t;
}

#define KW_JOIN(a, b) KW_JOIN_(a, b)
#define KW_JOIN_(a, b) a##b

// The assembler's name of an exported symbol; `dlsym` finds it without the platform's prefix.
#define KW_TEXT(a) KW_TEXT_(a)
#define KW_TEXT_(a) #a
#define KW_LABEL(text) __asm__(KW_TEXT(__USER_LABEL_PREFIX__) text)

// One exported symbol per kernel; its name carries the kernel and the host name.
#define KW_EXPORT(name, label, ...) \
  extern "C" [[clang::sycl_external]] void name( \
      void* const* buffers, const struct kw_thread* who) KW_LABEL(label); \
  extern "C" [[clang::sycl_external]] KW_UNSEEN void name( \
      void* const* buffers, const struct kw_thread* who) { \
    __VA_ARGS__(buffers, who); \
  }
// __restrict: no store of the kernel changes its arguments, so that the loop can keep them. Only a
// marked loop is vectorised behind a check that no index wraps around (see toolchain.py).
#define KW_EXPORT_ROW(name, label, ...) \
  extern "C" [[clang::sycl_external]] void name( \
      void* const* __restrict buffers, const struct kw_thread* __restrict who, \
      kw_uint count) KW_LABEL(label); \
  extern "C" [[clang::sycl_external]] void name( \
      void* const* __restrict buffers, const struct kw_thread* __restrict who, \
      kw_uint count) { \
    _Pragma("clang loop vectorize(enable)") \
    for (kw_uint i = 0; i < count; i++) { \
      struct kw_thread at = kw_along_row(who, i); \
      __VA_ARGS__(buffers, &at); \
    } \
  }
#define KW_NO_ROW(...)
// Another one tells which bytes of its buffers' elements are no padding; see padding.h.
#define KW_EXPORT_PADDING(name, label, ...) \
  extern "C" [[clang::sycl_external]] KW_UNWATCHED kw_ulong name( \
      kw_uint kw_place, unsigned char* kw_bytes, kw_ulong kw_room) KW_LABEL(label); \
  extern "C" [[clang::sycl_external]] KW_UNWATCHED kw_ulong name( \
      kw_uint kw_place, unsigned char* kw_bytes, kw_ulong kw_room) { \
    return kw_take_pointees(&__VA_ARGS__, kw_place, kw_bytes, kw_room); \
  }
// Every text defines KW_ROW_ENTRY and, for instances of templates, KW_ROW_INSTANCE: as
// KW_EXPORT_ROW where a loop over threads is of use, else as KW_NO_ROW; and KW_PADDING_ENTRY, as
// KW_EXPORT_PADDING where some buffer's elements may have padding.
#define KW_ENTRY_(row, n, label, ...) \
  KW_EXPORT(KW_JOIN(kw_entry_, n), "kw_entry:" label, __VA_ARGS__) \
  row(KW_JOIN(kw_row_, n), "kw_row:" label, __VA_ARGS__)
#define KW_PADDING_(n, label, ...) \
  KW_PADDING_ENTRY(KW_JOIN(kw_padding_, n), "kw_padding:" label, __VA_ARGS__)

// A kernel under its host name, with what it is called by, and a template's instantiation under one.
#define KW_ENTRY(kernel, host, ...) \
  KW_ENTRY_(KW_ROW_ENTRY, __COUNTER__, #kernel ":" host, kw_call_##kernel) \
  KW_PADDING_(__COUNTER__, #kernel ":" host, __VA_ARGS__)
#define KW_WAITING_ENTRY(kernel, host, ...) \
  KW_ENTRY_(KW_NO_ROW, __COUNTER__, #kernel ":" host, kw_call_##kernel) \
  KW_PADDING_(__COUNTER__, #kernel ":" host, __VA_ARGS__)
#define KW_INSTANTIATE(host, kernel, ...) \
  KW_ENTRY_(KW_ROW_INSTANCE, __COUNTER__, #kernel ":" host, kw_call_##kernel<__VA_ARGS__>) \
  KW_PADDING_(__COUNTER__, #kernel ":" host, kernel<__VA_ARGS__>)
#define KW_INSTANTIATE_IN(scope, host, kernel, ...) \
  KW_ENTRY_(KW_ROW_INSTANCE, __COUNTER__, #kernel ":" host, scope kw_call_##kernel<__VA_ARGS__>) \
  KW_PADDING_(__COUNTER__, #kernel ":" host, scope kernel<__VA_ARGS__>)

// Says whether a kernel has a function's type; never called.
template <typename F>
metal::true_type kw_has_signature(F*, int);
template <typename F, typename G>
metal::false_type kw_has_signature(G*, ...);
// What an instantiation repeats of its template's parameters.
#define KW_CHECK_INSTANCE(types, name, ...) \
  static_assert(decltype(kw_has_signature<void types>(&__VA_ARGS__, 0))::value, \
                "explicit instantiation of '" name "' does not refer to a function template with " \
                "these parameters");
