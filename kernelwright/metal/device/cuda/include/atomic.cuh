// Metal's relaxed atomics on device and threadgroup memory.
namespace metal {

enum memory_order {
  memory_order_relaxed,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device
};
KW_FUNC void atomic_thread_fence(mem_flags, memory_order, thread_scope scope = thread_scope_device) {
  if (scope == thread_scope_device) ::__threadfence();
  else ::__threadfence_block();
}

template <class T> struct atomic {
  T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_ulong = atomic<ulong>;
using atomic_float = atomic<float>;
using atomic_bool = atomic<bool>;

template <class T> KW_FUNC T atomic_load_explicit(const volatile atomic<T>* p, memory_order) {
  return p->value;
}
template <class T, class U> KW_FUNC void atomic_store_explicit(volatile atomic<T>* p, U v, memory_order) {
  p->value = T(v);
}
template <class T> KW_FUNC T* kw_address(volatile atomic<T>* p) { return const_cast<T*>(&p->value); }

// CUDA knows 64-bit atomics as unsigned long long only.
template <class T> struct kw_atomic_word { using type = T; };
template <> struct kw_atomic_word<ulong> { using type = unsigned long long; };
template <> struct kw_atomic_word<long> { using type = unsigned long long; };
#define KW_ATOMIC(name, function)                                                                \
  template <class T, class U> KW_FUNC T name(volatile atomic<T>* p, U v, memory_order) {         \
    using W = typename kw_atomic_word<T>::type;                                                  \
    return T(function(reinterpret_cast<W*>(kw_address(p)), W(T(v))));                            \
  }
KW_ATOMIC(atomic_exchange_explicit, ::atomicExch)
KW_ATOMIC(atomic_fetch_add_explicit, ::atomicAdd)
KW_ATOMIC(atomic_fetch_and_explicit, ::atomicAnd)
KW_ATOMIC(atomic_fetch_or_explicit, ::atomicOr)
KW_ATOMIC(atomic_fetch_xor_explicit, ::atomicXor)
template <class T, class U> KW_FUNC T atomic_fetch_sub_explicit(volatile atomic<T>* p, U v, memory_order o) {
  return atomic_fetch_add_explicit(p, T(-T(v)), o);
}

template <class T> using kw_word_t = conditional_t<sizeof(T) == 8, ulong, uint>;
template <class T> KW_FUNC T kw_compare_and_swap(T* p, T expected, T desired) {
  if constexpr (sizeof(T) == 8) {
    return kw_bits<T>(::atomicCAS(reinterpret_cast<unsigned long long*>(p),
                                  kw_bits<unsigned long long>(expected),
                                  kw_bits<unsigned long long>(desired)));
  } else {
    return kw_bits<T>(::atomicCAS(reinterpret_cast<uint*>(p), kw_bits<uint>(expected),
                                  kw_bits<uint>(desired)));
  }
}
template <class T, class U>
KW_FUNC bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* p, T* expected, U desired,
                                                   memory_order, memory_order) {
  using W = kw_word_t<T>;
  T wanted = *expected;
  *expected = kw_compare_and_swap(kw_address(p), wanted, T(desired));
  return kw_bits<W>(*expected) == kw_bits<W>(wanted);
}
// CUDA has no float extremum; the loop serves every type alike.
#define KW_ATOMIC_EXTREMUM(name, op)                                                       \
  template <class T, class U> KW_FUNC T name(volatile atomic<T>* p, U v, memory_order) {   \
    T* address = kw_address(p);                                                            \
    T seen = *const_cast<volatile T*>(address), value = T(v);                              \
    while (value op seen) {                                                                \
      T before = kw_compare_and_swap(address, seen, value);                                \
      if (kw_bits<kw_word_t<T>>(before) == kw_bits<kw_word_t<T>>(seen)) break;             \
      seen = before;                                                                       \
    }                                                                                      \
    return seen;                                                                           \
  }
KW_ATOMIC_EXTREMUM(atomic_fetch_max_explicit, >)
KW_ATOMIC_EXTREMUM(atomic_fetch_min_explicit, <)

}  // namespace metal
