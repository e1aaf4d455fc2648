// Atomic operations of instrumented kernels: seen as atomic accesses, then carried out.
#include "instrument.h"

using namespace kw;

#define PC ((uint64_t)__builtin_return_address(0))

#define KW_EXCHANGING(bits, type, name, builtin)                                            \
  KW_EXPORT type __tsan_atomic##bits##_##name(volatile type* p, type value, int) {          \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    return builtin(p, value, __ATOMIC_SEQ_CST);                                             \
  }

// The last of clang's variants reports the value it found; the first two through `expected`.
#define KW_COMPARING(bits, type, name)                                                      \
  KW_EXPORT int __tsan_atomic##bits##_compare_exchange_##name(                              \
      volatile type* p, type* expected, type value, int, int) {                             \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,         \
                                       __ATOMIC_SEQ_CST);                                   \
  }

#define KW_ATOMIC(bits, type)                                                               \
  KW_EXPORT type __tsan_atomic##bits##_load(const volatile type* p, int) {                  \
    see((const void*)p, bits / 8, READ | ATOMIC, PC);                                       \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
  }                                                                                         \
  KW_EXPORT void __tsan_atomic##bits##_store(volatile type* p, type value, int) {           \
    see((const void*)p, bits / 8, WRITE | ATOMIC, PC);                                      \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                           \
  }                                                                                         \
  KW_EXCHANGING(bits, type, exchange, __atomic_exchange_n)                                  \
  KW_EXCHANGING(bits, type, fetch_add, __atomic_fetch_add)                                  \
  KW_EXCHANGING(bits, type, fetch_sub, __atomic_fetch_sub)                                  \
  KW_EXCHANGING(bits, type, fetch_and, __atomic_fetch_and)                                  \
  KW_EXCHANGING(bits, type, fetch_or, __atomic_fetch_or)                                    \
  KW_EXCHANGING(bits, type, fetch_xor, __atomic_fetch_xor)                                  \
  KW_EXCHANGING(bits, type, fetch_nand, __atomic_fetch_nand)                                \
  KW_COMPARING(bits, type, strong)                                                          \
  KW_COMPARING(bits, type, weak)                                                            \
  KW_EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, \
                                                            type value, int, int) {         \
    see((const void*)p, bits / 8, READ | WRITE | ATOMIC, PC);                               \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST,               \
                                __ATOMIC_SEQ_CST);                                          \
    return expected;                                                                        \
  }

KW_ATOMIC(8, uint8_t)
KW_ATOMIC(16, uint16_t)
KW_ATOMIC(32, uint32_t)
KW_ATOMIC(64, uint64_t)

KW_EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
KW_EXPORT void __tsan_atomic_signal_fence(int) {}
